// The descriptors of data files that are read without being mapped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace stoker {

// An open file; the destructor closes it.
class Descriptor {
  public:
    // Throws std::system_error.
    explicit Descriptor(const std::string& path);
    ~Descriptor();
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;

    int number() const { return number_; }
    // Reads `size` bytes from `offset` on, or those until the end of the file, and returns their number. Throws
    // std::system_error with `path`.
    std::size_t read(const std::string& path, std::int64_t offset, std::uint8_t* data, std::size_t size) const;

  private:
    int number_;
};

// The files of a dataset that are open: those in use, and the ones used last up to a limit, which all datasets of the
// process share. A dataset may have thousands of files, and a process usually may open 1,024.
class OpenFiles {
  public:
    OpenFiles();
    ~OpenFiles();
    OpenFiles(const OpenFiles&) = delete;
    OpenFiles& operator=(const OpenFiles&) = delete;
    // Returns the descriptor of a file, which stays open while the caller holds it. Any thread may call this.
    // Throws std::system_error.
    std::shared_ptr<const Descriptor> open(std::size_t file, const std::string& path);

  private:
    std::uint64_t id_;  // of this object among those of the process
};

}  // namespace stoker
