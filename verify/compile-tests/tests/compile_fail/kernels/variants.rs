//! Mistakes with `Option`s, enums with data, and what a launch takes apart.

#[windlass::kernels]
mod endless {
    #[derive(Clone, Copy)]
    enum Chain {
        End,
        Next(Link),
    }

    #[derive(Clone, Copy)]
    struct Link {
        chain: Chain,
    }
}

#[windlass::kernels]
mod used {
    #[derive(Clone, Copy)]
    pub enum Shape {
        Nothing,
        Circle(f32),
        Box { width: f32, height: f32 },
    }

    #[derive(Clone, Copy)]
    struct Drawn {
        shape: Shape,
        at: u32,
    }

    pub const FIRST: Option<u32> = first(3);

    const fn first(x: u32) -> Option<u32> {
        if x == 0 { None } else { Some(x) }
    }

    fn no_option(x: u32) -> u32 {
        first(x)? + 1
    }

    #[kernel]
    fn stored(drawn: &[Drawn], maybe: &mut [Option<u32>], many: [Option<[Drawn; 5]>; 100_000_000]) {}

    #[kernel]
    fn made(out: &mut [f32]) {
        let a = Shape::Circle;
        let b = Shape::Circle(1, 2.0);
        let c = Shape::Box(1.0, 2.0);
        let d = Shape::Box { width: 1.0 };
        let e = Shape::Square { side: 1.0 };
        let f = Some(1, 2);
        let g: Option = None;
        let h: Option<u32> = Some(1.5);
    }

    #[kernel]
    fn asked(shape: Shape, maybe: Option<u32>, out: &mut [f32]) {
        out[0] = match shape {
            Shape::Circle(radius) => radius,
            Shape::Nothing => 0.0,
        };
        out[1] = match shape {
            Shape::Circle(radius, _) => radius,
            Shape::Box { width, depth } => width,
            Some(x) => x,
            Shape::Nothing => 0.0,
        };
        out[2] = match maybe {
            Some(3) => 1.0,
            Some(x) => x as f32,
            None => 2.0,
        };
        if shape == Shape::Nothing || maybe == Some(1) {
            out[3] = shape as u32 as f32;
        }
        out[4] = maybe.unwrap() as f32;
        out[5] = maybe.map(|x| x + 1).unwrap_or(2) as f32;
        if let other = maybe {
            out[6] = 1.0;
        }
        if let Some(x) = maybe && x > 3 {
            out[7] = 1.0;
        }
        let Some(x) = maybe else {
            out[8] = 1.0;
        };
        let Shape::Circle(radius) = shape;
        while let Some(x) = out[9] {}
        out[10] = maybe?;
    }
}

fn main() {}
