#include "records/open_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace stoker {
namespace {

constexpr std::size_t kMostRecent = 256;  // so that several loaders stay below the usual limit of a process

}  // namespace

Descriptor::Descriptor(const std::string& path) {
    // A pipe without a writer would block a plain open for ever.
    do number_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    while (number_ < 0 && errno == EINTR);  // a signal may interrupt a slow network file system
    if (number_ < 0) throw std::system_error(errno, std::generic_category(), path);
}

Descriptor::~Descriptor() { ::close(number_); }

std::size_t Descriptor::read(const std::string& path, std::int64_t offset, std::uint8_t* data, std::size_t size) const {
    std::size_t done = 0;
    while (done < size) {
        const ssize_t got = ::pread(number_, data + done, size - done, offset + static_cast<off_t>(done));
        if (got == 0) break;
        if (got < 0 && errno != EINTR) throw std::system_error(errno, std::generic_category(), path);
        if (got > 0) done += static_cast<std::size_t>(got);
    }
    return done;
}

std::shared_ptr<const Descriptor> OpenFiles::open(std::size_t file, const std::string& path) {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (auto found = find(file)) return found;
    }
    // Without the lock, because a network file system may take long to open or close a file.
    auto opened = std::make_shared<const Descriptor>(path);
    std::shared_ptr<const Descriptor> dropped;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (auto found = find(file)) return found;
    recent_.emplace_front(file, opened);
    entries_[file] = recent_.begin();
    if (recent_.size() > kMostRecent) {
        dropped = std::move(recent_.back().second);
        entries_.erase(recent_.back().first);
        recent_.pop_back();
    }
    return opened;
}

std::shared_ptr<const Descriptor> OpenFiles::find(std::size_t file) {
    const auto entry = entries_.find(file);
    if (entry == entries_.end()) return nullptr;
    recent_.splice(recent_.begin(), recent_, entry->second);
    return entry->second->second;
}

}  // namespace stoker
