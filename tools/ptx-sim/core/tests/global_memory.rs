//! Host operations on global memory.

use ptx_sim::{Allocation, GlobalMemory, MemoryError};

#[test]
fn buffers_of_the_host() {
    let mut memory = GlobalMemory::new();
    let first = memory.allocate("first", 100).expect("allocating");
    let second = memory.allocate("second", 1).expect("allocating");
    assert!(first > u64::from(u32::MAX) && first.is_multiple_of(256) && second.is_multiple_of(256));
    assert!(second >= first + 100 + 65536, "a red zone lies between buffers");
    memory.write(first + 3, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]).expect("writing");
    let mut data = [0; 12];
    memory.read(first + 2, &mut data).expect("reading");
    assert_eq!(data, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    let error = memory.write(first + 95, &data).expect_err("12 bytes do not fit in the last 5");
    assert!(error.to_string().contains("the last 7 bytes are past the end of buffer `first` (100 bytes)"), "{error}");
    memory.free(first).expect("freeing");
    assert!(memory.free(first).is_err(), "a buffer is freed once");
    assert!(memory.read(first, &mut data).expect_err("it was freed").to_string().contains("freed"));
    assert!(memory.allocate("nothing", 0).is_err());
    assert!(memory.allocate("everything", 1 << 60).is_err());
}

#[test]
fn memories_of_several_gpus_do_not_meet() {
    let mut memories = [1_u64, 2, 3].map(|gpu| GlobalMemory::within(gpu << 40..(gpu + 1) << 40).expect("a good range"));
    for (gpu, memory) in (1_u64..).zip(&mut memories) {
        for bytes in [1, 1 << 20] {
            let address = memory.allocate("buffer", bytes).expect("allocating");
            assert_eq!(address >> 40, gpu, "{address:#x} is an address of another GPU");
        }
        assert_eq!(memory.allocations().next().expect("the first buffer").start, gpu << 40);
        let error = memory.allocate("too large", 1 << 40).expect_err("other buffers lie there");
        assert!(matches!(error, MemoryError::Allocation { .. }), "{error}");
    }
    let [first, second, _] = memories;
    let address = second.allocations().next().expect("a buffer").start;
    assert!(first.read(address, &mut [0]).is_err(), "a buffer of another GPU is nobody's");
    assert_eq!(first.allocation_at(address), None);
}

#[test]
fn a_memory_begins_where_it_is_told() {
    let mut memory = GlobalMemory::starting_at(1 << 45).expect("a good address");
    assert_eq!(memory.allocate("first", 8), Ok(1 << 45));
    assert_eq!(memory.allocate("second", 8), Ok((1 << 45) + (64 << 10) + 256));
    for first in [0, 1 << 31, (1 << 32) + 1, (1 << 40) + 128, 1 << 46, 1 << 63, u64::MAX - 255] {
        let error = GlobalMemory::starting_at(first).expect_err("no memory can lie there");
        assert!(error.to_string().contains(&format!("a memory from {first:#x} to 0x400000000000")), "{error}");
    }
    for end in [1 << 40, 1 << 39, (1 << 46) + 1, u64::MAX] {
        assert!(matches!(GlobalMemory::within(1 << 40..end), Err(MemoryError::Addresses { .. })), "{end:#x}");
    }
    let mut small = GlobalMemory::within(1 << 40..(1 << 40) + 100).expect("a small memory");
    assert!(small.allocate("too large", 101).is_err());
    assert_eq!(small.allocate("whole", 100), Ok(1 << 40));
    assert!(small.allocate("more", 1).is_err());
}

#[test]
fn an_address_tells_its_buffer() {
    let mut memory = GlobalMemory::new();
    assert_eq!((memory.allocation_at(0), memory.allocation_at(u64::MAX), memory.bytes_in_use()), (None, None, 0));
    let first = memory.allocate("first", 100).expect("allocating");
    let second = memory.allocate("second", 1000).expect("allocating");
    let allocation = Allocation { name: "first", start: first, bytes: 100, live: true, is_array: false };
    for address in [first, first + 1, first + 99] {
        assert_eq!(memory.allocation_at(address), Some(allocation));
    }
    for address in [first - 1, first + 100, second - 1, second + 1000] {
        assert_eq!(memory.allocation_at(address), None, "{address:#x} lies in no buffer");
    }
    assert_eq!(memory.bytes_in_use(), 1100);
    memory.free(first).expect("freeing");
    assert_eq!(memory.allocation_at(first + 7), Some(Allocation { live: false, ..allocation }));
    assert_eq!(memory.bytes_in_use(), 1000);
    let live: Vec<&str> = memory.allocations().filter(|buffer| buffer.live).map(|buffer| buffer.name).collect();
    assert_eq!(live, ["second"]);
}

#[test]
fn memory_is_filled_with_values_of_several_sizes() {
    let mut memory = GlobalMemory::new();
    let buffer = memory.allocate("buffer", 300_001).expect("allocating");
    let read = |memory: &GlobalMemory, offset: u64, count: usize| {
        let mut data = vec![0; count];
        memory.read(buffer + offset, &mut data).expect("reading");
        data
    };
    memory.set_8(buffer, 7, 300_001).expect("the whole buffer");
    assert!(read(&memory, 0, 300_001).iter().all(|byte| *byte == 7));
    memory.set_16(buffer + 2, 0x0201, 100_000).expect("an aligned address");
    assert_eq!(read(&memory, 0, 6), [7, 7, 1, 2, 1, 2]);
    assert_eq!(read(&memory, 199_998, 6), [1, 2, 1, 2, 7, 7]);
    memory.set_32(buffer + 4, 0x0403_0201, 2).expect("an aligned address");
    assert_eq!(read(&memory, 2, 12), [1, 2, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2]);
    memory.set_32(buffer + 4, 9, 0).expect("nothing to do");
    let before = read(&memory, 0, 300_001);
    for error in [memory.set_16(buffer + 1, 0, 1), memory.set_32(buffer + 2, 0, 1)] {
        assert!(matches!(error, Err(MemoryError::Misaligned { .. })), "{error:?}");
    }
    for error in [
        memory.set_8(buffer, 0, 300_002),
        memory.set_16(buffer + 300_000, 0, 1),
        memory.set_32(buffer, 0, u64::MAX),
        memory.set_32(buffer, 0, 1 << 62),
        memory.set_8(0, 0, 1),
    ] {
        assert!(matches!(error, Err(MemoryError::OutOfBounds { .. })), "{error:?}");
    }
    assert_eq!(read(&memory, 0, 300_001), before, "a fill that is refused writes nothing");
}

#[test]
fn the_host_is_told_what_was_never_written() {
    let mut memory = GlobalMemory::new();
    let buffer = memory.allocate("buffer", 64).expect("allocating");
    let mut data = [1; 16];
    assert_eq!(memory.read_checked(buffer, &mut data), Ok(false));
    assert_eq!(data, [0; 16], "what was never written reads as zeros");
    memory.write(buffer + 3, &[5; 10]).expect("writing");
    assert_eq!(memory.read_checked(buffer + 3, &mut data[..10]), Ok(true));
    assert_eq!(memory.read_checked(buffer + 3, &mut data[..11]), Ok(false));
    assert_eq!(memory.read_checked(buffer + 2, &mut data[..2]), Ok(false));
    assert_eq!(memory.first_unwritten(buffer, 64), Ok(Some(buffer)));
    assert_eq!(memory.first_unwritten(buffer + 3, 10), Ok(None));
    assert_eq!(memory.first_unwritten(buffer + 3, 61), Ok(Some(buffer + 13)));
    assert_eq!(memory.first_unwritten(buffer + 12, 1), Ok(None));
    memory.set_8(buffer, 0, 64).expect("filling");
    assert_eq!(memory.first_unwritten(buffer, 64), Ok(None));
    assert!(memory.first_unwritten(buffer, 65).is_err() && memory.read_checked(buffer + 60, &mut [0; 8]).is_err());
    assert_eq!((memory.first_unwritten(0, 0), memory.read_checked(0, &mut [])), (Ok(None), Ok(true)));
}
