//! Enums without data.

use windlass::prelude::*;

use crate::everywhere::{everywhere, read};

#[windlass::kernels]
mod enums {
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub(crate) enum Blend {
        Add,
        Scale = 7,
        Between,
        #[cfg(any())]
        Nothing,
        Take = -3,
    }

    #[derive(Clone, Copy)]
    enum Side {
        Left,
        Right,
    }

    pub(crate) const FIRST: Blend = Blend::Scale;
    const ORDER: [Blend; 3] = [FIRST, Blend::Take, next(Blend::Scale)];

    const fn next(of: Blend) -> Blend {
        if of == Blend::Add {
            Blend::Scale
        } else if of == Blend::Scale {
            Blend::Between
        } else {
            Blend::Add
        }
    }

    impl Blend {
        fn of(number: u32) -> Self {
            match number {
                0 => Self::Add,
                1 => Self::Scale,
                2 => Blend::Between,
                _ => Blend::Take,
            }
        }

        fn blended(self, a: i32, b: i32) -> i32 {
            match self {
                Blend::Add => a + b,
                Blend::Scale => a * b,
                Blend::Between => (a + b) / 2,
                Blend::Take => a - b,
            }
        }

        fn turned(self) -> Self {
            next(self)
        }
    }

    fn chosen<T>(side: Side, left: T, right: T) -> T {
        match side {
            Side::Left => left,
            Side::Right => right,
        }
    }

    #[windlass::kernel]
    pub(crate) fn blend(blend: Blend, x: &[i32], out: &mut [i32]) {
        let i = global_id(0);
        let first = Blend::of(i % 4);
        let mut result = blend.blended(x[i], 3) + first.blended(100, x[i]) * 1000;
        let own = first.turned();
        if own == Blend::Add && blend != Blend::Take {
            result = -result;
        }
        let (side, kept) = (if i % 3 == 0 { Side::Left } else { Side::Right }, [own, blend, ORDER[i % 3]]);
        result += chosen(side, kept[i % 3] as i32, 50) + chosen(side, Blend::Take, Blend::Scale) as i32;
        out[i] = match kept[2] {
            Blend::Scale => result,
            other => result + other as i32 * 10_000_000,
        };
    }
}

use enums::Blend;

fn blended(of: Blend, a: i32, b: i32) -> i32 {
    match of {
        Blend::Add => a + b,
        Blend::Scale => a * b,
        Blend::Between => (a + b) / 2,
        Blend::Take => a - b,
    }
}

#[test]
fn enums_choose() {
    let all = [Blend::Add, Blend::Scale, Blend::Between, Blend::Take];
    let after = [Blend::Scale, Blend::Between, Blend::Add, Blend::Add];
    let order = [Blend::Scale, Blend::Take, Blend::Between];
    assert_eq!((enums::FIRST, Blend::Between as i32), (Blend::Scale, 8));
    let x: Vec<i32> = (0..24).map(|i| i * 11 - 70).collect();
    for blend in all {
        let one = |i: usize| {
            let mut result = blended(blend, x[i], 3) + blended(all[i % 4], 100, x[i]) * 1000;
            let own = after[i % 4];
            if own == Blend::Add && blend != Blend::Take {
                result = -result;
            }
            let kept = [own, blend, order[i % 3]];
            result += if i.is_multiple_of(3) {
                kept[0] as i32 + Blend::Take as i32
            } else {
                50 + Blend::Scale as i32
            };
            if kept[2] == Blend::Scale { result } else { result + kept[2] as i32 * 10_000_000 }
        };
        let expected: Vec<i32> = (0..24).map(one).collect();
        everywhere(&expected, |queue| {
            let (x, out) = (Buffer::from(x.clone()), Buffer::<i32>::new(24));
            queue.submit(|cg| cg.parallel_for(24, enums::blend(blend, cg.read(&x), cg.overwrite(&out))))?;
            read(&out)
        });
    }
}
