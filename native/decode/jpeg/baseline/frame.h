// The headers of a baseline JPEG, up to its entropy-coded data (ITU T.81, annex B).
#pragma once

#include <array>
#include <cstdint>

#include "records/shards.h"

namespace stoker::jpeg {

constexpr int kCoefficients = 64;  // of a block
constexpr int kMaxTables = 4;
constexpr int kMaxComponents = 3;
constexpr int kMaxBlocks = 6;  // of an MCU, at the samplings that this decoder takes

// The natural (row-major) position of each coefficient in the order of the file (ITU T.81, figure A.6).
constexpr std::array<std::uint8_t, kCoefficients> kZigzag = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

// The code lengths and symbols of a Huffman table, as the file has them.
struct HuffmanSpec {
    std::array<std::uint8_t, 17> counts{};  // of the codes of each length, from index 1 on
    std::array<std::uint8_t, 256> symbols{};
    bool defined = false;

    bool operator==(const HuffmanSpec&) const = default;
};

struct Component {
    int h = 1, v = 1;  // blocks in an MCU, along each axis
    int quantisation = 0;
    int dc = 0, ac = 0;  // numbers of the Huffman tables
    int id = 0;
};

// The contents of the headers.
struct Frame {
    int width = 0, height = 0;
    int components = 0;
    std::array<Component, kMaxComponents> component{};
    std::array<std::array<std::uint16_t, kCoefficients>, kMaxTables> quantisation{};  // in natural order
    std::array<bool, kMaxTables> has_quantisation{};
    std::array<HuffmanSpec, kMaxTables> dc{}, ac{};
    int restart_interval = 0;             // in MCUs; 0: none
    const std::uint8_t* scan = nullptr;   // the entropy-coded data
    const std::uint8_t* end = nullptr;    // of the payload

    int max_h() const { return component[0].h; }
    int max_v() const { return component[0].v; }
    int blocks_per_mcu() const { return components == 1 ? 1 : component[0].h * component[0].v + 2; }
    int mcus_per_row() const { return (width + 8 * max_h() - 1) / (8 * max_h()); }
    int mcu_rows() const { return (height + 8 * max_v() - 1) / (8 * max_v()); }
};

// Reads the headers. Returns false if libjpeg-turbo must decode the image: all images but baseline ones with one scan, in
// grey or in YCbCr at 4:4:4, 4:2:2, 4:2:0 or 4:4:0, and those with unusual headers.
bool read_frame(const Payload& payload, Frame& frame);
// The same, but does not look for the end of the image.
bool read_frame_only(const Payload& payload, Frame& frame);

// Whether an end-of-image marker lies between; entropy-coded data cannot contain one.
bool has_end(const std::uint8_t* begin, const std::uint8_t* end);

}  // namespace stoker::jpeg
