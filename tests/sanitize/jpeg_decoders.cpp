// A comparison of the two JPEG decoders, for the sanitizers and for tests: small images of every kind, whole and
// damaged, are decoded by both. Every status, message and pixel must be equal.
//
//     jpeg_decoders INPUTS SEED [damaged|intact|banded]
//
// With `banded` the images have bands, and bytes of the image or numbers of its bands are damaged. Then the decoder must
// find the damage, or give the pixels of the undamaged image.
//
// The input that differed is written to `last-input.jpg`. tests/sanitize/run.sh builds and runs this program.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <jpeglib.h>

#include "decode/jpeg/jpeg_decoder.h"
#include "decode/read_window.h"
#include "records/crc32c.h"
#include "restarts/layout.h"

namespace {

using namespace stoker;
using Bytes = std::vector<std::uint8_t>;
using Random = std::mt19937_64;

int below(Random& random, int limit) { return static_cast<int>(random() % static_cast<std::uint64_t>(limit)); }
bool chance(Random& random, int percent) { return below(random, 100) < percent; }

// Grey, 4:4:4, 4:2:2, 4:4:0, 4:2:0, and two that libjpeg-turbo must decode: 4:1:1, and chroma as large as luma.
struct Sampling {
    int components, h, v, chroma_h, chroma_v;
};
constexpr Sampling kSamplings[] = {{1, 1, 1, 1, 1}, {3, 1, 1, 1, 1}, {3, 2, 1, 1, 1}, {3, 1, 2, 1, 1},
                                   {3, 2, 2, 1, 1}, {1, 1, 1, 1, 1}, {1, 2, 2, 1, 1}, {3, 4, 1, 1, 1}, {3, 2, 1, 2, 1}};

// Smooth colours, noise, or values as far apart as they can be.
Bytes pixels(Random& random, int height, int width, int components) {
    Bytes made(static_cast<std::size_t>(height * width * components));
    const int kind = below(random, 4), slope_x = below(random, 9) - 4, slope_y = below(random, 9) - 4;
    for (int y = 0, at = 0; y < height; ++y)
        for (int x = 0; x < width; ++x)
            for (int c = 0; c < components; ++c, ++at) {
                const int noise = below(random, 256);
                const int smooth = 128 + slope_x * x * (c + 1) + slope_y * y + noise / 32;
                made[at] = static_cast<std::uint8_t>(kind == 0   ? noise
                                                     : kind == 1 ? (noise < 128 ? 0 : 255)
                                                     : kind == 2 ? 77
                                                                 : std::clamp(smooth, 0, 255));
            }
    return made;
}

Bytes encode(Random& random) {
    const int height = 1 + below(random, 70), width = 1 + below(random, 70);
    const Sampling sampling = kSamplings[below(random, chance(random, 90) ? 6 : 9)];
    jpeg_compress_struct encoder;
    jpeg_error_mgr errors;
    encoder.err = jpeg_std_error(&errors);
    errors.emit_message = [](j_common_ptr, int) {};
    jpeg_create_compress(&encoder);
    unsigned char* memory = nullptr;
    unsigned long size = 0;
    jpeg_mem_dest(&encoder, &memory, &size);
    encoder.image_width = static_cast<JDIMENSION>(width);
    encoder.image_height = static_cast<JDIMENSION>(height);
    encoder.input_components = sampling.components;
    encoder.in_color_space = sampling.components == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&encoder);
    jpeg_set_quality(&encoder, 1 + below(random, 100), chance(random, 80) ? TRUE : FALSE);
    encoder.optimize_coding = chance(random, 50) ? TRUE : FALSE;
    for (int i = 0; i < sampling.components; ++i) {
        encoder.comp_info[i].h_samp_factor = i == 0 ? sampling.h : sampling.chroma_h;
        encoder.comp_info[i].v_samp_factor = i == 0 ? sampling.v : sampling.chroma_v;
    }
    if (chance(random, 40))
        encoder.restart_interval = static_cast<unsigned>(1 + below(random, 12));
    else if (chance(random, 30))
        encoder.restart_in_rows = 1 + below(random, 3);
    if (chance(random, 4)) jpeg_simple_progression(&encoder);
    if (chance(random, 5)) encoder.write_JFIF_header = FALSE;
    if (chance(random, 5)) encoder.write_Adobe_marker = TRUE;
    jpeg_start_compress(&encoder, TRUE);
    Bytes source = pixels(random, height, width, sampling.components);
    for (int y = 0; y < height; ++y) {
        JSAMPROW row = source.data() + static_cast<std::size_t>(y * width * sampling.components);
        jpeg_write_scanlines(&encoder, &row, 1);
    }
    jpeg_finish_compress(&encoder);
    jpeg_destroy_compress(&encoder);
    Bytes data(memory, memory + size);
    std::free(memory);
    return data;
}

// A few random edits, more of them in the headers than elsewhere.
void damage(Random& random, Bytes& data) {
    constexpr std::uint8_t interesting[] = {0x00, 0x01, 0x7F, 0x80, 0xFF, 0xD0, 0xD9, 0xC4, 0xDA, 0x11, 0x22};
    const bool headers = chance(random, 40);
    for (int edits = 1 + below(random, 4); edits > 0; --edits) {
        std::size_t at = random() % data.size();
        if (headers) at = at * (random() % 1024) / 1024;
        const std::uint8_t value = chance(random, 50) ? interesting[below(random, sizeof interesting)]
                                                      : static_cast<std::uint8_t>(random());
        const auto byte = data.begin() + static_cast<std::ptrdiff_t>(at);
        switch (below(random, 6)) {
            case 0: data.erase(byte, byte + std::min<std::ptrdiff_t>(1 + below(random, 4), data.end() - byte)); break;
            case 1: data.insert(byte, value); break;
            case 2: *byte ^= static_cast<std::uint8_t>(1 << below(random, 8)); break;
            case 3:
                if (data.size() > 4 && at > 3) data.resize(at);
                if (chance(random, 70)) data.insert(data.end(), {0xFF, 0xD9});
                break;
            default: *byte = value;
        }
        if (data.size() < 4) data.resize(4);
    }
}

// The numbers of bands that may be as small as one MCU row; none for an image that has no bands.
std::vector<std::uint32_t> small_bands(Random& random, const Payload& jpeg) {
    const auto layout = read_layout(jpeg);
    const auto starts = layout ? interval_starts(jpeg, *layout) : std::vector<std::size_t>{};
    if (starts.empty()) return {};
    const int wanted = 1 + below(random, layout->rows()), per_band = (layout->rows() + wanted - 1) / wanted;
    std::vector<std::uint32_t> numbers{0, 0};
    for (int row = 0; row < layout->rows(); row += per_band) {
        const auto interval = static_cast<std::size_t>(row) * static_cast<std::size_t>(layout->intervals_per_row());
        numbers.insert(numbers.end(), {static_cast<std::uint32_t>(starts[interval]), 0});
    }
    for (std::size_t i = 0; i < numbers.size(); i += 2) {
        const std::size_t end = i + 2 < numbers.size() ? numbers[i + 2] : jpeg.size;
        numbers[i + 1] = crc32c(jpeg.data + numbers[i], end - numbers[i]);
    }
    return numbers;
}

struct Decoded {
    std::string failure;
    int status = 0;
    Bytes rows;
};

Decoded decode(Decoder& decoder, const EncodedImage& image, Window window, int eighths) {
    Decoded result;
    const auto fail = [&] {
        result.failure = decoder.failure().message;
        result.status = static_cast<int>(decoder.failure().status);
        return result;
    };
    if (!decoder.open(image)) return fail();
    const std::size_t bytes = 3 * static_cast<std::size_t>(window.right - window.left);
    const auto take = [&](const std::uint8_t* const* rows, int, int count) {
        for (int i = 0; i < count; ++i) result.rows.insert(result.rows.end(), rows[i], rows[i] + bytes);
    };
    return read_window(decoder, window, eighths, take).ok() ? result : fail();
}

Bytes crop(const Bytes& whole, int width, const Window& window) {
    Bytes part;
    for (int y = window.top; y < window.bottom; ++y) {
        const std::uint8_t* row = whole.data() + 3 * static_cast<std::size_t>(y) * static_cast<std::size_t>(width);
        part.insert(part.end(), row + 3 * window.left, row + 3 * window.right);
    }
    return part;
}

Window random_window(Random& random, int height, int width) {
    if (chance(random, 20)) return {0, 0, width, height};
    const int top = below(random, height), left = below(random, width);
    return {left, top, left + 1 + below(random, width - left), top + 1 + below(random, height - top)};
}

[[noreturn]] void report(const Bytes& data, const Window& window, int eighths, const char* what) {
    std::FILE* file = std::fopen("last-input.jpg", "wb");
    if (file != nullptr) {
        std::fwrite(data.data(), 1, data.size(), file);
        std::fclose(file);
    }
    std::printf("%s: window (%d, %d, %d, %d) at %d/8, in last-input.jpg\n", what, window.left, window.top, window.right,
                window.bottom, eighths);
    std::exit(1);
}

class Comparison {
  public:
    // Compares both decoders on one image; returns whether both decode it.
    bool run(Random& random, const Bytes& data, bool intact) {
        // A copy of exactly this size, so that AddressSanitizer sees what lies outside.
        const Bytes payload(data);
        constexpr std::int64_t max_pixels = 1 << 20;
        EncodedImage image{{payload.data(), payload.size()}, 0, 0, max_pixels};
        const int eighths = 1 << below(random, 4);
        const bool opened = turbo_.open(image);
        if (opened != baseline_.open(image)) report(data, {}, eighths, "one decoder cannot open it");
        if (!opened) return false;
        if (baseline_.height() != turbo_.height() || baseline_.width() != turbo_.width())
            report(data, {}, eighths, "sizes differ");
        if (static_cast<std::int64_t>(baseline_.height()) * baseline_.width() > max_pixels) return false;
        const int height = (baseline_.height() * eighths + 7) / 8, width = (baseline_.width() * eighths + 7) / 8;
        const Window window = random_window(random, height, width);
        const Decoded expected = decode(turbo_, image, window, eighths);
        const Decoded found = decode(baseline_, image, window, eighths);
        // Stoker's decoder does not look at restart intervals outside the window.
        if (expected.status != 0 && seeks(data)) return false;
        if (expected.status != found.status || expected.failure != found.failure)
            report(data, window, eighths, (expected.failure + " became " + found.failure).c_str());
        if (expected.rows != found.rows) report(data, window, eighths, "pixels differ");
        if (intact) {
            const Window all{0, 0, width, height};
            if (crop(decode(turbo_, image, all, eighths).rows, width, window) != found.rows)
                report(data, window, eighths, "pixels depend on the window");
        }
        return expected.status == 0;
    }

    // Damages an image with bands, or its bands; returns whether it is decoded.
    bool run_banded(Random& random, const Bytes& data) {
        Bytes payload(data);
        std::vector<std::uint32_t> numbers = small_bands(random, {payload.data(), payload.size()});
        EncodedImage image{{payload.data(), payload.size()}, 0, 0, 1 << 20};
        if (numbers.empty() || !turbo_.open(image)) return false;
        const int eighths = 1 << below(random, 4);
        const Window window = random_window(random, (turbo_.height() * eighths + 7) / 8, (turbo_.width() * eighths + 7) / 8);
        const Decoded expected = decode(turbo_, image, window, eighths);
        image.crc = crc32c(payload.data(), payload.size());
        image.checked = false;
        const bool damaged = chance(random, 60);
        for (int edits = damaged ? 1 + below(random, 3) : 0; edits > 0; --edits)
            payload[random() % payload.size()] ^= static_cast<std::uint8_t>(1 << below(random, 8));
        for (int edits = damaged ? 0 : below(random, 3); edits > 0; --edits)
            numbers[random() % numbers.size()] = static_cast<std::uint32_t>(random() % (2 * payload.size()));
        image.bands = Bands(numbers);
        if (!image.bands.fit(payload.size())) return false;
        const Decoded found = decode(baseline_, image, window, eighths);
        if (found.status == 0 && found.rows != expected.rows) report(payload, window, eighths, "pixels of bands differ");
        if (found.status != 0 && !damaged) report(payload, window, eighths, found.failure.c_str());
        if (found.status != 0 && found.status != static_cast<int>(Status::checksum_mismatch))
            report(payload, window, eighths, found.failure.c_str());
        return found.status == 0;
    }

  private:
    static bool seeks(const Bytes& data) {
        constexpr std::string_view marker("\xFF\xDD", 2);
        return std::string_view(reinterpret_cast<const char*>(data.data()), data.size()).find(marker) !=
               std::string_view::npos;
    }

    JpegDecoder baseline_;
    TurboDecoder turbo_;
};

}  // namespace

int main(int argc, char** argv) {
    const long inputs = argc > 1 ? std::atol(argv[1]) : 10000;
    Random random(argc > 2 ? static_cast<std::uint64_t>(std::atoll(argv[2])) : 0);
    const std::string_view mode = argc > 3 ? argv[3] : "damaged";
    const bool intact = mode == "intact";
    Comparison comparison;
    long decoded = 0;
    Bytes data;
    for (long i = 0; i < inputs; ++i) {
        // Several inputs are made of each encoded image, and `banded` needs an image with bands.
        static Bytes encoded;
        if (intact || i % 8 == 0) {
            do encoded = encode(random);
            while (mode == "banded" && small_bands(random, {encoded.data(), encoded.size()}).empty());
        }
        data = encoded;
        if (mode == "banded") {
            decoded += comparison.run_banded(random, data);
            continue;
        }
        if (!intact) damage(random, data);
        decoded += comparison.run(random, data, intact);
    }
    std::printf("%ld inputs are equal; both decoders decode %ld\n", inputs, decoded);
}
