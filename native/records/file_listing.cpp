#include "records/file_listing.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>

#include "records/open_files.h"

namespace stoker {
namespace {

constexpr char kMagic[FileListing::kMagicBytes + 1] = "STKLIST1";

// The start of a listing. The arrays follow: starts, times, starts of names, root, names.
struct ListingHeader {
    char magic[FileListing::kMagicBytes];
    std::int64_t count;
    std::int64_t root_bytes;
    std::int64_t text_bytes;
};
static_assert(sizeof(ListingHeader) == FileListing::kHeaderBytes);

void check_unchanged(const std::string& path, const struct stat& info, std::int64_t length, std::int64_t modified) {
    if (!S_ISREG(info.st_mode)) throw std::length_error(path + " is not a regular file any longer");
    if (info.st_size != length)
        throw std::length_error(path + " has changed since it was listed: " + std::to_string(length) +
                                " bytes, then " + std::to_string(info.st_size));
    if (modified_ns(info) != modified)
        throw std::length_error(path + " has changed since it was listed: its modification time differs");
}

}  // namespace

std::int64_t modified_ns(const struct stat& info) {
#if defined(__APPLE__)
    const timespec& modified = info.st_mtimespec;
#else
    const timespec& modified = info.st_mtim;
#endif
    return static_cast<std::int64_t>(modified.tv_sec) * 1'000'000'000 + modified.tv_nsec;
}

bool FileListing::recognizes(const std::uint8_t* data, std::size_t size) {
    return size >= sizeof(ListingHeader) && std::memcmp(data, kMagic, kMagicBytes) == 0;
}

FileListing::FileListing(const std::string& path, const std::uint8_t* data, std::size_t size) {
    ListingHeader header;
    std::memcpy(&header, data, sizeof header);
    const auto most = static_cast<std::int64_t>(size);
    const bool fits = header.count >= 0 && header.count < most / 24 && header.root_bytes >= 0 &&
                      header.root_bytes <= most && header.text_bytes >= 0 && header.text_bytes <= most;
    const auto expected = static_cast<std::int64_t>(sizeof header) + 8 * (3 * header.count + 2);
    if (!fits || expected + header.root_bytes + header.text_bytes != most)
        throw std::length_error(path + " is a damaged listing");
    count_ = header.count;
    starts_ = reinterpret_cast<const std::int64_t*>(data + sizeof header);
    modified_ = starts_ + count_ + 1;
    names_ = modified_ + count_;
    const auto* text = reinterpret_cast<const char*>(names_ + count_ + 1);
    root_.assign(text, static_cast<std::size_t>(header.root_bytes));
    text_ = text + header.root_bytes;
    text_bytes_ = header.text_bytes;
    if (root_.empty() || root_[0] != '/') root_ = path.substr(0, path.rfind('/') + 1) + root_;
}

std::int64_t FileListing::row_at(std::int64_t offset) const {
    const std::int64_t row = std::upper_bound(starts_, starts_ + count_ + 1, offset) - starts_ - 1;
    return std::clamp(row, std::int64_t{0}, count_);
}

std::string FileListing::path_of(std::int64_t row) const {
    const std::int64_t begin = names_[row], end = names_[row + 1];
    if (begin < 0 || begin >= end || end > text_bytes_) throw std::out_of_range("the listing of files is damaged");
    const std::string name(text_ + begin, static_cast<std::size_t>(end - begin));
    return name[0] == '/' ? name : root_ + '/' + name;
}

Payload FileListing::read(std::int64_t offset, std::int64_t length, std::vector<std::uint8_t>& storage) const {
    const std::int64_t row = row_at(offset);
    if (row == count_ || starts_[row] != offset || starts_[row + 1] - offset != length)
        throw std::out_of_range("bytes " + std::to_string(offset) + " + " + std::to_string(length) +
                                " are not those of a file of the listing");
    const std::string path = path_of(row);
    const Descriptor file(path);
    struct stat info{};
    if (::fstat(file.number(), &info) != 0) throw std::system_error(errno, std::generic_category(), path);
    check_unchanged(path, info, length, modified_[row]);
    const auto size = static_cast<std::size_t>(length);
    if (storage.size() < size) storage.resize(size);
    if (file.read(path, 0, storage.data(), size) < size)
        throw std::length_error(path + " became shorter while it was read");
    return {storage.data(), size, false};
}

void FileListing::will_need(std::int64_t offset, std::int64_t length) const noexcept {
    try {
        for (std::int64_t row = row_at(offset); row < count_ && starts_[row] < offset + length; ++row) {
            const Descriptor file(path_of(row));
#if defined(__APPLE__)  // which lacks posix_fadvise
            radvisory range{0, static_cast<int>(starts_[row + 1] - starts_[row])};
            ::fcntl(file.number(), F_RDADVISE, &range);
#else
            ::posix_fadvise(file.number(), 0, 0, POSIX_FADV_WILLNEED);  // to its end
#endif
        }
    } catch (const std::exception&) {
        // The read that follows reports it.
    }
}

}  // namespace stoker
