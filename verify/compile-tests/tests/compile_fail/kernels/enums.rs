//! Enums that kernels do not have.

#[windlass::kernels]
mod data {
    #[derive(Clone, Copy)]
    enum Shape {
        Round(f32),
        Square { side: f32 },
        Numbered = 5,
    }

    #[derive(Clone, Copy)]
    enum Plain {
        Huge = 5_000_000_000,
    }
}

#[windlass::kernels]
mod copied {
    enum Side {
        Left,
        Right,
    }

    #[kernel]
    fn run(side: Side, out: &mut [u32]) {
        out[0] = side as u32;
    }
}

#[windlass::kernels]
mod used {
    #[derive(Clone, Copy)]
    enum Side {
        Left,
        Right,
        Both,
    }

    #[kernel]
    fn stored(sides: &[Side], three: [Side; 3]) {}

    #[kernel]
    fn asked(side: Side, n: u32, out: &mut [u32]) {
        out[0] = match side {
            Side::Left => 1,
            Side::Right => 2,
        };
        out[1] = match side {
            Side::Up => 1,
            _ => 2,
        };
        out[2] = match n {
            Side::Left => 1,
            _ => 2,
        };
        if side < Side::Both || side == 1 {
            out[3] = side + 1;
        }
        out[4] = side as f32 as u32;
    }
}

fn main() {}
