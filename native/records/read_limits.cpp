#include "records/read_limits.h"

#if defined(__linux__)
#include <sys/sysmacros.h>  // elsewhere sys/types.h has them
#endif

#include <algorithm>
#include <fstream>
#include <map>
#include <mutex>
#include <string>

namespace stoker {
namespace {

constexpr std::int64_t kDefault = 128 << 10;
constexpr std::int64_t kMost = 16 << 20;  // limits of some network file systems are far larger

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
    return std::clamp(kilobytes << 10, kDefault, kMost);
}

}  // namespace

std::int64_t read_ahead_limit(dev_t device) {
    static std::mutex mutex;
    static std::map<dev_t, std::int64_t> known;  // a dataset has thousands of files on one device
    const std::lock_guard<std::mutex> lock(mutex);
    const auto [found, is_new] = known.try_emplace(device, 0);
    if (is_new) found->second = find_limit(device);
    return found->second;
}

}  // namespace stoker
