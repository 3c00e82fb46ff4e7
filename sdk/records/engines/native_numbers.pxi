# The numbers in a record: variable-length integers and wrapping sums. Nothing here depends on alignment, and no sum
# overflows, since all are unsigned.

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    #ifdef __GNUC__
    #define RARELY_CALLED __attribute__((cold, noinline))
    #else
    #define RARELY_CALLED
    #endif

    static inline int64_t wrap64(uint64_t v) { int64_t r; memcpy(&r, &v, sizeof r); return r; }
    static inline int32_t wrap32(uint32_t v) { int32_t r; memcpy(&r, &v, sizeof r); return r; }

    static inline uint64_t zigzag(int64_t v) { return ((uint64_t)v << 1) ^ (v < 0 ? UINT64_MAX : 0); }
    /* Nearly all numbers in a record take one or two bytes: these need neither a loop nor a call. */
    RARELY_CALLED static Py_ssize_t long_varint_size(uint64_t bits) {
        Py_ssize_t size = 1;
        for (; bits >= 128; bits >>= 7) size++;
        return size;
    }
    static inline Py_ssize_t varint_size(int64_t v) {
        uint64_t bits = zigzag(v);
        return bits < 128 ? 1 : bits < 16384 ? 2 : long_varint_size(bits);
    }
    RARELY_CALLED static uint8_t *put_long_varint(uint8_t *p, uint64_t bits) {
        while (bits >= 128) { *p++ = (uint8_t)(bits | 128); bits >>= 7; }
        *p++ = (uint8_t)bits;
        return p;
    }
    static inline uint8_t *put_varint(uint8_t *p, int64_t v) {
        uint64_t bits = zigzag(v);
        if (bits < 128) { p[0] = (uint8_t)bits; return p + 1; }
        if (bits < 16384) { p[0] = (uint8_t)(bits | 128); p[1] = (uint8_t)(bits >> 7); return p + 2; }
        return put_long_varint(p, bits);
    }
    /* These functions return the end of the number, NULL if it is truncated or too long. Excess bits are dropped. */
    static const uint8_t *get_long_varint(const uint8_t *p, const uint8_t *end, int32_t *value) {
        uint32_t bits = 0;
        for (int shift = 0; shift < 35 && p < end; shift += 7) {
            uint8_t byte = *p++;
            bits |= (uint32_t)(byte & 127) << shift;
            if (byte < 128) { *value = wrap32((bits >> 1) ^ (0 - (bits & 1))); return p; }
        }
        return NULL;
    }
    static inline const uint8_t *get_varint(const uint8_t *p, const uint8_t *end, int32_t *value) {
        if (p < end) {
            uint32_t bits = p[0];
            if (bits < 128) { *value = (int32_t)(bits >> 1) ^ -(int32_t)(bits & 1); return p + 1; }
            if (end - p >= 2 && p[1] < 128) {
                bits = (bits & 127) | (uint32_t)p[1] << 7;
                *value = (int32_t)(bits >> 1) ^ -(int32_t)(bits & 1);
                return p + 2;
            }
        }
        return get_long_varint(p, end, value);
    }
    /* Read a number of one or two bytes, after the caller has checked that they exist; NULL if it is longer. */
    static inline const uint8_t *get_short_varint(const uint8_t *p, int32_t *value) {
        uint32_t bits = p[0];
        if (bits >= 128) {
            if (p[1] >= 128) return NULL;
            bits = (bits & 127) | (uint32_t)p[1] << 7;
            p++;
        }
        *value = (int32_t)(bits >> 1) ^ -(int32_t)(bits & 1);
        return p + 1;
    }
    static const uint8_t *get_long_varlong(const uint8_t *p, const uint8_t *end, int64_t *value) {
        uint64_t bits = 0;
        for (int shift = 0; shift < 70 && p < end; shift += 7) {
            uint8_t byte = *p++;
            bits |= (uint64_t)(byte & 127) << shift;
            if (byte < 128) { *value = wrap64((bits >> 1) ^ (0 - (bits & 1))); return p; }
        }
        return NULL;
    }
    static inline const uint8_t *get_varlong(const uint8_t *p, const uint8_t *end, int64_t *value) {
        if (p < end) {
            uint32_t bits = p[0];
            if (bits < 128) { *value = (int32_t)(bits >> 1) ^ -(int32_t)(bits & 1); return p + 1; }
            if (end - p >= 2 && p[1] < 128) {
                bits = (bits & 127) | (uint32_t)p[1] << 7;
                *value = (int32_t)(bits >> 1) ^ -(int32_t)(bits & 1);
                return p + 2;
            }
        }
        return get_long_varlong(p, end, value);
    }
    """
    int64_t wrap64(uint64_t v) noexcept nogil
    int32_t wrap32(uint32_t v) noexcept nogil
    Py_ssize_t varint_size(int64_t v) noexcept nogil
    uint8_t *put_varint(uint8_t *p, int64_t v) noexcept nogil
    const uint8_t *get_short_varint(const uint8_t *p, int32_t *value) noexcept nogil
    const uint8_t *get_varint(const uint8_t *p, const uint8_t *end, int32_t *value) noexcept nogil
    const uint8_t *get_varlong(const uint8_t *p, const uint8_t *end, int64_t *value) noexcept nogil
