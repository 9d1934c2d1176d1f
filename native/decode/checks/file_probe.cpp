#include "decode/checks/file_probe.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <exception>

#include "records/open_files.h"

namespace stoker {

bool probe_jpeg_file(const std::string& path, std::int64_t size, Header& header) {
    constexpr std::int64_t start = 16 << 10, end = 2;
    thread_local std::array<std::uint8_t, start> bytes;
    try {
        const Descriptor file(path);
        struct stat info{};
        if (::fstat(file.number(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_size != size) return false;
        const ssize_t got = ::pread(file.number(), bytes.data(), bytes.size(), 0);
        if (got < 4 || bytes[0] != 0xFF || bytes[1] != 0xD8) return false;
        header = probe(bytes.data(), static_cast<std::size_t>(got));
        std::array<std::uint8_t, end> last{};
        if (::pread(file.number(), last.data(), last.size(), size - end) != end) return false;
        return header.codec == Codec::jpeg && last[0] == 0xFF && last[1] == 0xD9;
    } catch (const std::exception&) {
        return false;
    }
}

}  // namespace stoker
