#include "records/open_files.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <list>
#include <map>
#include <mutex>
#include <system_error>
#include <utility>

namespace stoker {
namespace {

constexpr std::size_t kMostRecent = 256;  // of all loaders, below the usual limit of a process
std::atomic<std::uint64_t> next_id{0};

}  // namespace

// The descriptors of all objects of OpenFiles. It is never destroyed: threads may read until the process ends.
struct Descriptors {
    using Key = std::pair<std::uint64_t, std::size_t>;  // an object of OpenFiles, and a file of its dataset
    using Open = std::shared_ptr<const Descriptor>;
    using Recent = std::list<std::pair<Key, Open>>;

    Open find(const Key& key) {
        const std::lock_guard<std::mutex> lock(mutex);
        return found(key);
    }

    Open keep(const Key& key, Open opened) {
        Open dropped;  // closed after the lock is free
        const std::lock_guard<std::mutex> lock(mutex);
        if (auto earlier = found(key)) return earlier;
        recent.emplace_front(key, opened);
        entries[key] = recent.begin();
        if (recent.size() > kMostRecent) {
            dropped = std::move(recent.back().second);
            entries.erase(recent.back().first);
            recent.pop_back();
        }
        return opened;
    }

    void forget(std::uint64_t id) {
        Recent dropped;
        const std::lock_guard<std::mutex> lock(mutex);
        auto entry = entries.lower_bound({id, 0});
        while (entry != entries.end() && entry->first.first == id) {
            dropped.splice(dropped.begin(), recent, entry->second);
            entry = entries.erase(entry);
        }
    }

    std::mutex mutex;

  private:
    Open found(const Key& key) {
        const auto entry = entries.find(key);
        if (entry == entries.end()) return nullptr;
        recent.splice(recent.begin(), recent, entry->second);
        return entry->second->second;
    }

    Recent recent;  // used last first
    std::map<Key, Recent::iterator> entries;
};

namespace {

Descriptors& descriptors() {
    static Descriptors* const all = [] {
        auto* made = new Descriptors;
        // A forked child must not inherit the lock from a thread that it does not have.
        ::pthread_atfork([] { descriptors().mutex.lock(); }, [] { descriptors().mutex.unlock(); },
                         [] { descriptors().mutex.unlock(); });
        return made;
    }();
    return *all;
}

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

OpenFiles::OpenFiles() : id_(next_id.fetch_add(1)) {}

OpenFiles::~OpenFiles() { descriptors().forget(id_); }

std::shared_ptr<const Descriptor> OpenFiles::open(std::size_t file, const std::string& path) {
    Descriptors& all = descriptors();
    const Descriptors::Key key{id_, file};
    if (auto found = all.find(key)) return found;
    // Without the lock, because a network file system may take long to open or close a file.
    auto opened = std::make_shared<const Descriptor>(path);
    return all.keep(key, std::move(opened));
}

}  // namespace stoker
