// The guard of a thread's work on a sample: it turns an exception into the outcome of the sample.
#pragma once

#include <cstdio>
#include <exception>
#include <new>

#include "decode/status.h"

namespace stoker {

class Guard {
  public:
    // Returns the outcome that `execute` returns or throws. The message of an exception is valid until the next call.
    template <class Execute>
    Outcome run(Execute execute) {
        try {
            return execute();
        } catch (const std::bad_alloc&) {
            return {Status::not_decodable, "no memory to decode it"};
        } catch (const std::exception& error) {
            std::snprintf(fault_, sizeof fault_, "%s", error.what());  // std::string might fail to allocate
            return {Status::read_error, fault_};
        }
    }

  private:
    char fault_[1024] = "";
};

}  // namespace stoker
