#include "records/shards.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#if defined(__linux__)
#include <sys/sysmacros.h>  // elsewhere sys/types.h has its macros
#endif
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <map>
#include <stdexcept>
#include <system_error>
#include <tuple>

namespace stoker {
namespace {

constexpr std::int64_t kLeastAhead = 128 << 10;
constexpr std::int64_t kMostAhead = 16 << 20;  // limits of some network file systems are far larger

// The number in a file of sysfs; 0 if there is no such file.
std::int64_t number_in(const std::string& path) {
    std::int64_t number = 0;
    std::ifstream(path) >> number;
    return number;
}

std::int64_t find_limit(dev_t device) {
    const std::string numbers = std::to_string(major(device)) + ":" + std::to_string(minor(device));
    const std::string disk = "/sys/dev/block/" + numbers;
    std::int64_t kilobytes = number_in("/sys/class/bdi/" + numbers + "/read_ahead_kb");  // also of network file systems
    for (const std::string& queue : {disk + "/queue/", disk + "/../queue/"})  // of a disk, or of a partition's disk
        for (const char* const name : {"read_ahead_kb", "max_sectors_kb"})
            kilobytes = std::max(kilobytes, number_in(queue + name));
    return std::clamp(kilobytes << 10, kLeastAhead, kMostAhead);
}

// Returns the most bytes that Linux reads ahead for one call of madvise or posix_fadvise, for files of a device
// (`st_dev`). It ignores the rest of a longer call without an error. The number is the larger of the device's limit
// for readahead and its limit for a request. It is 128 KiB, the default of both, if the system does not name them.
std::int64_t read_ahead_limit(dev_t device) {
    static std::mutex mutex;
    static std::map<dev_t, std::int64_t> known;  // a dataset has thousands of files on one device
    const std::lock_guard<std::mutex> lock(mutex);
    const auto [found, is_new] = known.try_emplace(device, 0);
    if (is_new) found->second = find_limit(device);
    return found->second;
}

[[noreturn]] void fail(const std::string& path) {
    throw std::system_error(errno, std::generic_category(), path);
}

void read_bytes(const Descriptor& descriptor, const std::string& path, std::int64_t offset, std::uint8_t* data,
                std::size_t size) {
    if (descriptor.read(path, offset, data, size) < size)
        throw std::out_of_range(path + " became shorter while it was read");
}

// Checks that a file is a regular file of this size. Returns the device that holds it.
dev_t check_size(const Descriptor& descriptor, const std::string& path, std::int64_t size) {
    struct stat info{};
    if (::fstat(descriptor.number(), &info) != 0) fail(path);
    if (!S_ISREG(info.st_mode) || info.st_size != size)
        throw std::length_error(path + " has " + std::to_string(info.st_size) + " bytes and should have " +
                                std::to_string(size));
    return info.st_dev;
}

const std::shared_ptr<const DataFile>& file_of(const DataFiles& files, std::int64_t shard, std::int64_t offset,
                                               std::int64_t length) {
    if (shard < 0 || shard >= static_cast<std::int64_t>(files.size()))
        throw std::out_of_range("there are " + std::to_string(files.size()) + " shards, and none is number " +
                                std::to_string(shard));
    const auto& file = files[static_cast<std::size_t>(shard)];
    if (!file->contains(offset, length))
        throw std::out_of_range("bytes " + std::to_string(offset) + " + " + std::to_string(length) +
                                " are not within the " + std::to_string(file->size()) + " bytes of shard " +
                                std::to_string(shard));
    return file;
}

// Asks the kernel to read bytes of a file ahead.
void advise(const Descriptor& descriptor, std::int64_t offset, std::int64_t bytes) noexcept {
#if defined(__APPLE__)  // which lacks posix_fadvise
    radvisory range{offset, static_cast<int>(bytes)};
    ::fcntl(descriptor.number(), F_RDADVISE, &range);
#else
    ::posix_fadvise(descriptor.number(), offset, bytes, POSIX_FADV_WILLNEED);
#endif
}

// Returns the ranges in the order of the files, and joins ranges that lie less than `gap` bytes apart.
std::vector<Range> join_ranges(std::vector<Range> ranges, std::int64_t gap) {
    std::sort(ranges.begin(), ranges.end(),
              [](const Range& a, const Range& b) { return std::tie(a.shard, a.offset) < std::tie(b.shard, b.offset); });
    std::vector<Range> result;
    for (const Range& range : ranges) {
        if (!result.empty()) {
            Range& last = result.back();
            const std::int64_t end = last.offset + last.length;
            if (last.shard == range.shard && range.offset - end < gap) {
                last.length = std::max(end, range.offset + range.length) - last.offset;
                continue;
            }
        }
        result.push_back(range);
    }
    return result;
}

}  // namespace

DataFile::DataFile(const std::string& path, std::int64_t size, std::size_t file,
                   std::shared_ptr<OpenFiles> open_files, bool may_be_listing)
    : path_(path), size_(size), file_(file), open_files_(std::move(open_files)) {
    // Neither a mapping nor a check needs the descriptor later, and a dataset may have thousands of shards.
    const Descriptor descriptor(path);
    most_ahead_ = read_ahead_limit(check_size(descriptor, path, size));
    if (open_files_ == nullptr && size != 0) {
        void* map = ::mmap(nullptr, static_cast<std::size_t>(size), PROT_READ, MAP_SHARED, descriptor.number(), 0);
        if (map == MAP_FAILED) fail(path);
        map_ = static_cast<std::uint8_t*>(map);
    }
    if (!may_be_listing) return;
    try {
        find_listing(descriptor);
    } catch (...) {  // a constructor that fails has no destructor
        if (map_ != nullptr) ::munmap(map_, static_cast<std::size_t>(size_));
        throw;
    }
}

void DataFile::find_listing(const Descriptor& descriptor) {
    const auto size = static_cast<std::size_t>(size_);
    // Not from the mapping: a page fault reads as much around the page as the device's readahead, 128 KiB or more.
    copy_.resize(std::min(size, FileListing::kHeaderBytes));
    read_bytes(descriptor, path_, 0, copy_.data(), copy_.size());
    const bool recognized = FileListing::recognizes(copy_.data(), copy_.size());
    copy_ = {};
    if (!recognized) return;
    const std::uint8_t* data = map_;
    if (map_ == nullptr) {
        copy_.resize(size);
        read_bytes(descriptor, path_, 0, copy_.data(), size);
        data = copy_.data();
    }
    listing_ = std::make_unique<const FileListing>(path_, data, size);
}

DataFile::~DataFile() {
    if (map_ != nullptr) ::munmap(map_, static_cast<std::size_t>(size_));
}

Payload DataFile::read(std::int64_t offset, std::int64_t length, std::vector<std::uint8_t>& storage) const {
    if (listing_ != nullptr) return listing_->read(offset, length, storage);
    const auto size = static_cast<std::size_t>(length);
    if (map_ != nullptr) return {map_ + offset, size};
    if (storage.size() < size) storage.resize(size);
    if (size == 0) return {storage.data(), 0};
    const auto descriptor = open_files_->open(file_, path_);
    read_bytes(*descriptor, path_, offset, storage.data(), size);
    return {storage.data(), size};
}

void DataFile::will_need(std::int64_t offset, std::int64_t length) const noexcept {
    static const std::int64_t page = ::sysconf(_SC_PAGESIZE);
    const std::int64_t end = offset + length;
    if (length == 0) return;
    if (listing_ != nullptr) return listing_->will_need(offset, length);
    std::shared_ptr<const Descriptor> descriptor;
    try {
        if (map_ == nullptr) descriptor = open_files_->open(file_, path_);
    } catch (const std::exception&) {
        return;  // the read that follows reports it
    }
    for (std::int64_t at = offset / page * page; at < end; at += most_ahead_) {
        const std::int64_t bytes = std::min(most_ahead_, end - at);
        if (map_ == nullptr)
            advise(*descriptor, at, bytes);
        else
            ::madvise(map_ + at, static_cast<std::size_t>(bytes), MADV_WILLNEED);
    }
}

Shards::Shards(const std::vector<std::string>& paths, const std::vector<std::int64_t>& sizes, bool mapped,
               bool listing) {
    auto files = std::make_shared<DataFiles>();
    const std::shared_ptr<OpenFiles> open_files = mapped ? nullptr : std::make_shared<OpenFiles>();
    for (std::size_t i = 0; i < paths.size(); ++i)
        files->push_back(std::make_shared<const DataFile>(paths[i], sizes[i], i, open_files, listing));
    files_ = std::move(files);
}

std::shared_ptr<const DataFiles> Shards::files() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (files_ == nullptr) throw std::out_of_range("the shards are closed");
    return files_;
}

std::shared_ptr<const DataFile> Shards::file(std::int64_t shard, std::int64_t offset, std::int64_t length) const {
    return file_of(*files(), shard, offset, length);
}

void Shards::will_need(std::vector<Range> ranges, std::int64_t gap) const {
    const auto files = this->files();
    // Check the ranges before they are joined, because their ends may overflow.
    for (const Range& range : ranges) file_of(*files, range.shard, range.offset, range.length);
    for (const Range& range : join_ranges(std::move(ranges), gap))
        (*files)[static_cast<std::size_t>(range.shard)]->will_need(range.offset, range.length);
}

void Shards::close() {
    const std::lock_guard<std::mutex> lock(mutex_);
    files_.reset();
}

}  // namespace stoker
