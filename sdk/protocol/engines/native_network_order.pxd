# Loads and stores in network byte order, for all extensions. They work bytewise or use memcpy, so they do not depend on
# alignment and have no undefined behaviour. Compilers turn each into one instruction.

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from *:
    """
    #ifndef KAFKAWIRE_NETWORK_ORDER
    #define KAFKAWIRE_NETWORK_ORDER
    #include <stdint.h>
    #include <string.h>

    static inline uint16_t load16(const uint8_t *p) { return (uint16_t)((uint16_t)p[0] << 8 | p[1]); }
    static inline uint32_t load32(const uint8_t *p) {
        return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
    }
    static inline uint64_t load64(const uint8_t *p) {
        return (uint64_t)p[0] << 56 | (uint64_t)p[1] << 48 | (uint64_t)p[2] << 40 | (uint64_t)p[3] << 32
            | (uint64_t)p[4] << 24 | (uint64_t)p[5] << 16 | (uint64_t)p[6] << 8 | p[7];
    }
    static inline double load_double(const uint8_t *p) {
        uint64_t bits = load64(p);
        double value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }

    static inline void store16(uint8_t *p, uint16_t v) { p[0] = (uint8_t)(v >> 8); p[1] = (uint8_t)v; }
    static inline void store32(uint8_t *p, uint32_t v) {
        p[0] = (uint8_t)(v >> 24); p[1] = (uint8_t)(v >> 16); p[2] = (uint8_t)(v >> 8); p[3] = (uint8_t)v;
    }
    static inline void store64(uint8_t *p, uint64_t v) { store32(p, (uint32_t)(v >> 32)); store32(p + 4, (uint32_t)v); }
    static inline void store_double(uint8_t *p, double value) {
        uint64_t bits;
        memcpy(&bits, &value, sizeof bits);
        store64(p, bits);
    }
    #endif
    """
    uint16_t load16(const uint8_t *) noexcept nogil
    uint32_t load32(const uint8_t *) noexcept nogil
    uint64_t load64(const uint8_t *) noexcept nogil
    double load_double(const uint8_t *) noexcept nogil
    void store16(uint8_t *, uint16_t) noexcept nogil
    void store32(uint8_t *, uint32_t) noexcept nogil
    void store64(uint8_t *, uint64_t) noexcept nogil
    void store_double(uint8_t *, double) noexcept nogil
