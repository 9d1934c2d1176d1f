#include "transcode/restart_marks.h"

#include <jerror.h>

#include <csetjmp>
#include <memory>
#include <new>
#include <stdexcept>

#include "decode/header.h"
#include "restarts/layout.h"
#include "transcode/jpeg_output.h"

// libjpeg reports an error by longjmp. copy() and what it calls have only plain data on their stacks, so that
// the jump skips no destructor.

namespace stoker {
namespace {

constexpr int kMaxScans = 500;  // as in TurboDecoder
constexpr unsigned kMaxSegment = 0xFFFF;
constexpr const char* kDamaged = "damaged, or of a kind that libjpeg-turbo cannot copy";

struct Copier {
    jpeg_decompress_struct decoder{};
    jpeg_compress_struct encoder{};
    jpeg_error_mgr errors{};
    jpeg_progress_mgr progress{};
    JpegOutput output;
    std::jmp_buf jump{};
    const char* reason = "";
    char detail[JMSG_LENGTH_MAX] = "";
    bool out_of_memory = false;

    Copier() {
        decoder.err = encoder.err = jpeg_std_error(&errors);
        errors.error_exit = on_error;
        errors.emit_message = on_message;
        progress.progress_monitor = on_progress;
        decoder.client_data = encoder.client_data = this;
    }
    ~Copier() {
        jpeg_destroy_compress(&encoder);
        jpeg_destroy_decompress(&decoder);
    }
    Copier(const Copier&) = delete;
    Copier& operator=(const Copier&) = delete;

    bool copy(const Payload& jpeg) {
        if (setjmp(jump)) return false;
        jpeg_create_decompress(&decoder);
        jpeg_create_compress(&encoder);
        decoder.progress = &progress;
        encoder.dest = output.manager();
        jpeg_mem_src(&decoder, jpeg.data, jpeg.size);
        for (int number = 0; number < 16; ++number) jpeg_save_markers(&decoder, JPEG_APP0 + number, kMaxSegment);
        jpeg_save_markers(&decoder, JPEG_COM, kMaxSegment);
        jpeg_read_header(&decoder, TRUE);
        if (decoder.data_precision != 8) fail("more than 8 bits");  // which libjpeg-turbo 3 would copy
        if (decoder.arith_code) fail("arithmetic coding");
        jvirt_barray_ptr* coefficients = jpeg_read_coefficients(&decoder);
        if (decoder.progressive_mode && !has_all_bits()) fail("incomplete progressive image");
        set_up_encoder();
        jpeg_write_coefficients(&encoder, coefficients);
        for (const jpeg_marker_struct* marker = decoder.marker_list; marker != nullptr; marker = marker->next) {
            if (marker->data_length != marker->original_length) fail("segment that is too long");
            jpeg_write_marker(&encoder, marker->marker, marker->data, marker->data_length);
        }
        jpeg_finish_compress(&encoder);
        jpeg_finish_decompress(&decoder);
        return true;
    }

  private:
    static Copier& of(j_common_ptr codec) { return *static_cast<Copier*>(codec->client_data); }

    [[noreturn]] void fail(const char* why) {
        reason = why;
        std::longjmp(jump, 1);
    }

    static void on_error(j_common_ptr codec) {
        Copier& self = of(codec);
        codec->err->format_message(codec, self.detail);
        self.out_of_memory = codec->err->msg_code == JERR_OUT_OF_MEMORY;
        const bool eight_bits = self.decoder.data_precision == 0 || self.decoder.data_precision == 8;
        self.fail(eight_bits ? kDamaged : "more than 8 bits");
    }

    // Treats every warning as damage, except those that change no coefficient.
    static void on_message(j_common_ptr codec, int level) {
        if (level >= 0) return;
        switch (codec->err->msg_code) {
            case JWRN_ADOBE_XFORM:
            case JWRN_EXTRANEOUS_DATA:
            case JWRN_JFIF_MAJOR: return;
            default: on_error(codec);
        }
    }

    static void on_progress(j_common_ptr codec) {
        Copier& self = of(codec);
        if (self.decoder.input_scan_number > kMaxScans) self.fail("more than 500 scans");
    }

    // Whether the scans give all bits of all coefficients: libjpeg smooths other images when it decodes them.
    bool has_all_bits() const {
        for (int component = 0; component < decoder.num_components; ++component)
            for (int i = 0; i < DCTSIZE2; ++i)
                if (decoder.coef_bits[component][i] != 0) return false;
        return true;
    }

    void set_up_encoder() {
        jpeg_copy_critical_parameters(&decoder, &encoder);
        encoder.optimize_coding = TRUE;
        // The scan of one component is a row of its blocks, whatever its sampling factor is.
        const int blocks = decoder.num_components == 1 ? 1 : decoder.max_h_samp_factor;
        const auto mcu_width = static_cast<JDIMENSION>(DCTSIZE * blocks);
        encoder.restart_interval = restart_interval((decoder.image_width + mcu_width - 1) / mcu_width);
        // They are among the markers that are copied.
        encoder.write_JFIF_header = FALSE;
        encoder.write_Adobe_marker = FALSE;
    }
};

bool same_header(const Payload& one, const std::vector<std::uint8_t>& other) {
    const Header a = probe(one.data, one.size), b = probe(other.data(), other.size());
    return a.width == b.width && a.height == b.height && a.orientation == b.orientation && a.channels == b.channels;
}

}  // namespace

RestartMarked mark_restarts(const Payload& jpeg) {
    const auto copier = std::make_unique<Copier>();
    if (!copier->copy(jpeg)) {
        if (copier->out_of_memory) throw std::bad_alloc();
        return {{}, copier->reason, copier->detail};
    }
    RestartMarked marked{copier->output.bytes(), "", ""};
    try {
        // EXIF after the frame header is ignored. The copy would have it before the frame header, where it counts.
        if (!same_header(jpeg, marked.payload)) return {{}, "EXIF after the frame header", ""};
    } catch (const std::invalid_argument& error) {  // libjpeg reads some headers that Stoker refuses
        return {{}, kDamaged, error.what()};
    }
    return marked;
}

}  // namespace stoker
