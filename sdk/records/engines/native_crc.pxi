# CRC-32C, using the processor's instruction if it has one. Nothing here depends on alignment.

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    #if defined(__x86_64__) && defined(__GNUC__)
    #include <nmmintrin.h>
    #define HAS_CRC_INSTRUCTION 1
    #endif

    /* CRC-32C using tables, eight bytes per step, for processors without an instruction for it. */
    #define CRC_POLYNOMIAL 0x82f63b78u
    static uint32_t crc_tables[8][256];
    static uint32_t crc_by_table(uint32_t crc, const uint8_t *p, size_t size) {
        crc = ~crc;
        for (; size >= 8; p += 8, size -= 8) {
            crc ^= (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
            crc = crc_tables[7][crc & 255] ^ crc_tables[6][crc >> 8 & 255] ^ crc_tables[5][crc >> 16 & 255]
                ^ crc_tables[4][crc >> 24] ^ crc_tables[3][p[4]] ^ crc_tables[2][p[5]] ^ crc_tables[1][p[6]]
                ^ crc_tables[0][p[7]];
        }
        while (size--) crc = crc_tables[0][(crc ^ *p++) & 255] ^ crc >> 8;
        return ~crc;
    }
    static uint32_t (*crc32c_of)(uint32_t, const uint8_t *, size_t) = crc_by_table;

    #ifdef HAS_CRC_INSTRUCTION
    /* The instruction has a latency of three cycles, so three stretches are computed in parallel. To join them, each
       checksum is advanced over as many zero bytes as there are bytes after it. This function is linear, and is stored
       as one table for each byte. */
    #define LONG_STRETCH 4096
    #define SHORT_STRETCH 256
    #define TINY_STRETCH 48
    static uint32_t over_long[4][256], over_short[4][256], over_tiny[4][256];
    static inline uint32_t carry_over(uint32_t table[4][256], uint32_t crc) {
        return table[0][crc & 255] ^ table[1][crc >> 8 & 255] ^ table[2][crc >> 16 & 255] ^ table[3][crc >> 24];
    }
    static void fill_carry(uint32_t table[4][256], size_t zeros) {
        uint32_t bit_carried[32];
        for (int bit = 0; bit < 32; bit++) {
            uint32_t crc = (uint32_t)1 << bit;
            for (size_t i = 0; i < zeros; i++) crc = crc_tables[0][crc & 255] ^ crc >> 8;
            bit_carried[bit] = crc;
        }
        for (int byte = 0; byte < 4; byte++)
            for (int value = 0; value < 256; value++) {
                uint32_t crc = 0;
                for (int bit = 0; bit < 8; bit++) if (value >> bit & 1) crc ^= bit_carried[byte * 8 + bit];
                table[byte][value] = crc;
            }
    }
    __attribute__((target("sse4.2")))
    static inline uint64_t crc_step(uint64_t crc, const uint8_t *p) {
        uint64_t word;
        memcpy(&word, p, sizeof word);
        return _mm_crc32_u64(crc, word);
    }
    __attribute__((target("sse4.2")))
    static inline uint64_t crc_stretches(uint64_t crc, const uint8_t *p, size_t stretch, uint32_t table[4][256]) {
        uint64_t second = 0, third = 0;
        for (const uint8_t *end = p + stretch; p < end; p += 8) {
            crc = crc_step(crc, p);
            second = crc_step(second, p + stretch);
            third = crc_step(third, p + 2 * stretch);
        }
        crc = carry_over(table, (uint32_t)crc) ^ second;
        return carry_over(table, (uint32_t)crc) ^ third;
    }
    __attribute__((target("sse4.2")))
    static uint32_t crc_by_instruction(uint32_t start, const uint8_t *p, size_t size) {
        uint64_t crc = (uint32_t)~start;
        for (; size >= 3 * LONG_STRETCH; p += 3 * LONG_STRETCH, size -= 3 * LONG_STRETCH)
            crc = crc_stretches(crc, p, LONG_STRETCH, over_long);
        for (; size >= 3 * SHORT_STRETCH; p += 3 * SHORT_STRETCH, size -= 3 * SHORT_STRETCH)
            crc = crc_stretches(crc, p, SHORT_STRETCH, over_short);
        for (; size >= 3 * TINY_STRETCH; p += 3 * TINY_STRETCH, size -= 3 * TINY_STRETCH)
            crc = crc_stretches(crc, p, TINY_STRETCH, over_tiny);
        for (; size >= 8; p += 8, size -= 8) crc = crc_step(crc, p);
        uint32_t rest = (uint32_t)crc, four;
        if (size & 4) { memcpy(&four, p, sizeof four); rest = _mm_crc32_u32(rest, four); p += 4; }
        for (size &= 3; size--;) rest = _mm_crc32_u8(rest, *p++);
        return ~rest;
    }
    #endif

    static void prepare_crc(void) {
        for (int value = 0; value < 256; value++) {
            uint32_t crc = (uint32_t)value;
            for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ CRC_POLYNOMIAL : crc >> 1;
            crc_tables[0][value] = crc;
        }
        for (int value = 0; value < 256; value++)
            for (int table = 1; table < 8; table++) {
                uint32_t before = crc_tables[table - 1][value];
                crc_tables[table][value] = crc_tables[0][before & 255] ^ before >> 8;
            }
    #ifdef HAS_CRC_INSTRUCTION
        if (__builtin_cpu_supports("sse4.2")) {
            fill_carry(over_long, LONG_STRETCH);
            fill_carry(over_short, SHORT_STRETCH);
            fill_carry(over_tiny, TINY_STRETCH);
            crc32c_of = crc_by_instruction;
        }
    #endif
    }
    """
    uint32_t crc_by_table(uint32_t crc, const uint8_t *p, size_t size) noexcept nogil
    uint32_t crc32c_of(uint32_t crc, const uint8_t *p, size_t size) noexcept nogil
    void prepare_crc() noexcept

prepare_crc()

#: From this size on, computing a checksum releases the GIL.
cdef enum:
    UNLOCKED_BYTES = 65536


cdef uint32_t checksum_of(const uint8_t *p, Py_ssize_t size) noexcept:
    cdef uint32_t crc
    if size < UNLOCKED_BYTES:
        return crc32c_of(0, p, <size_t>size)
    with nogil:
        crc = crc32c_of(0, p, <size_t>size)
    return crc


def crc32c(const uint8_t[::1] data not None, uint32_t value=0):
    """Return the CRC-32C of `data`, continuing from the checksum `value`."""
    if not data.shape[0]:
        return value
    return crc32c_of(value, &data[0], <size_t>data.shape[0])


def crc32c_by_table(const uint8_t[::1] data not None, uint32_t value=0):
    """Return the result of `crc32c`, computed as on processors without an instruction for it."""
    if not data.shape[0]:
        return value
    return crc_by_table(value, &data[0], <size_t>data.shape[0])
