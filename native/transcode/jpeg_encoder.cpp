#include "transcode/jpeg_encoder.h"

#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>

#include <jpeglib.h>
#include <jerror.h>

namespace stoker {
namespace {

struct Encoder {
    jpeg_compress_struct encoder{};
    jpeg_error_mgr errors{};
    jpeg_destination_mgr destination{};
    std::jmp_buf jump{};
    char message[JMSG_LENGTH_MAX] = "";
    JOCTET* bytes = nullptr;
    std::size_t capacity = 0;

    Encoder() {
        encoder.err = jpeg_std_error(&errors);
        errors.error_exit = [](j_common_ptr encoder) {
            Encoder& self = of(encoder);
            encoder->err->format_message(encoder, self.message);
            std::longjmp(self.jump, 1);
        };
        errors.emit_message = [](j_common_ptr, int) {};
        // jpeg_mem_dest() leaves a pointer to freed memory when it runs out of memory.
        destination.init_destination = [](j_compress_ptr encoder) { grow(encoder); };
        destination.empty_output_buffer = grow;
        destination.term_destination = [](j_compress_ptr) {};
        encoder.client_data = this;
    }
    ~Encoder() {
        jpeg_destroy_compress(&encoder);
        std::free(bytes);
    }
    Encoder(const Encoder&) = delete;
    Encoder& operator=(const Encoder&) = delete;

    std::size_t size() const { return capacity - destination.free_in_buffer; }

    // This method has only plain data on its stack, so that a longjmp of libjpeg skips no destructor.
    bool run(const std::uint8_t* rgb, int height, int width, int quality, Subsampling subsampling) {
        if (setjmp(jump)) return false;
        jpeg_create_compress(&encoder);
        encoder.dest = &destination;
        encoder.image_height = static_cast<JDIMENSION>(height);
        encoder.image_width = static_cast<JDIMENSION>(width);
        encoder.input_components = 3;
        encoder.in_color_space = JCS_RGB;
        jpeg_set_defaults(&encoder);
        jpeg_set_quality(&encoder, quality, TRUE);
        encoder.comp_info[0].h_samp_factor = subsampling == Subsampling::s444 ? 1 : 2;
        encoder.comp_info[0].v_samp_factor = subsampling == Subsampling::s420 ? 2 : 1;
        jpeg_start_compress(&encoder, TRUE);
        while (encoder.next_scanline < encoder.image_height) {
            const std::uint8_t* row = rgb + static_cast<std::size_t>(encoder.next_scanline) *
                                                static_cast<std::size_t>(width) * 3;
            JSAMPROW rows[1] = {const_cast<JSAMPROW>(row)};  // libjpeg does not write to its input
            jpeg_write_scanlines(&encoder, rows, 1);
        }
        jpeg_finish_compress(&encoder);
        return true;
    }

  private:
    static Encoder& of(j_common_ptr encoder) { return *static_cast<Encoder*>(encoder->client_data); }

    // Doubles the capacity, which is used up.
    static boolean grow(j_compress_ptr encoder) {
        Encoder& self = of(reinterpret_cast<j_common_ptr>(encoder));
        const std::size_t taken = self.capacity, larger = taken == 0 ? 1 << 16 : 2 * taken;
        auto* bytes = static_cast<JOCTET*>(std::realloc(self.bytes, larger));
        if (bytes == nullptr) ERREXIT1(encoder, JERR_OUT_OF_MEMORY, 0);
        self.bytes = bytes;
        self.capacity = larger;
        self.destination.next_output_byte = bytes + taken;
        self.destination.free_in_buffer = larger - taken;
        return TRUE;
    }
};

}  // namespace

std::vector<std::uint8_t> encode_jpeg(const std::uint8_t* rgb, int height, int width, int quality,
                                      Subsampling subsampling) {
    const auto encoder = std::make_unique<Encoder>();
    if (!encoder->run(rgb, height, width, quality, subsampling)) throw std::runtime_error(encoder->message);
    return {encoder->bytes, encoder->bytes + encoder->size()};
}

}  // namespace stoker
