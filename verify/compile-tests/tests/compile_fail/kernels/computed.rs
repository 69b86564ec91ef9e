//! Constants that are not computed.

#[windlass::kernels]
mod kernels {
    use windlass::prelude::*;

    const PLAIN: u32 = twice(4);
    const ENDLESS: u32 = endless();
    const DEEP: u32 = deeper(3);
    const WHERE: u32 = placed();
    const HUGE: f32 = overflowed();
    const WRONG: f32 = counted(3);
    const LENGTH: u32 = held_in(4);

    #[derive(Clone, Copy)]
    struct Held {
        all: [u32; LENGTH],
    }

    const fn held_in(x: u32) -> u32 {
        let held = Held { all: [x; 3] };
        held.all[0]
    }

    fn twice(x: u32) -> u32 {
        2 * x
    }

    const fn endless() -> u32 {
        let mut turns = 0;
        loop {
            turns += 1;
        }
        turns
    }

    const fn deeper(x: u32) -> u32 {
        deeper(x + 1)
    }

    const fn placed() -> u32 {
        global_id(0)
    }

    const fn overflowed() -> f32 {
        f32::MAX * 2.0
    }

    const fn counted(x: u32) -> u32 {
        x + 1
    }

    #[kernel]
    fn run(n: u32, out: &mut [u32]) {
        const OWN: u32 = counted(n);
        out[0] = OWN;
    }
}

fn main() {}
