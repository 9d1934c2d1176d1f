// Runs the engine of Perfetto's web page: reads requests from standard input, and writes answers to standard output.
//
// node perfetto.js FOLDER, which holds engine_bundle.js and trace_processor.wasm
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const folder = process.argv[2];

class XMLHttpRequest {
  open(method, url) {
    this.file = path.join(folder, path.basename(url));
  }
  send() {
    this.response = new Uint8Array(fs.readFileSync(this.file)).buffer;
  }
}

const worker = vm.createContext({
  XMLHttpRequest, TextDecoder, URL, performance, setTimeout,
  WorkerGlobalScope: Object,
  location: { href: "engine_bundle.js" },
  console: { log() {}, warn() {}, error: console.error },
});
worker.self = worker;
vm.runInContext(fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8"), worker);
const port = { postMessage: (answer) => fs.writeSync(1, answer) };
worker.onmessage({ data: port });
const Bytes = vm.runInContext("Uint8Array", worker);
setTimeout(() => port.onmessage({ data: new Bytes(fs.readFileSync(0)) })); // once the engine is ready
