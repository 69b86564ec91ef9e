//! Generic helpers and structs, methods, operators, other modules.
#[windlass::kernels]
mod generic {
    #[derive(Clone, Copy)]
    struct Pair<T> {
        a: T,
        b: T,
    }

    fn zero<T>() -> T {
        0
    }

    fn larger<T>(a: T, b: T) -> T {
        if a > b { a } else { b }
    }

    fn first<T, const N: usize>(x: [T; N]) -> T {
        x[0]
    }

    fn forever<T>(x: T) -> u32 {
        forever(Pair { a: x, b: x })
    }

    #[kernel]
    fn uses(out: &mut [u32]) {
        out[0] = larger(1, 2.0);
        out[1] = larger::<u32, u32>(1, 2);
        zero();
        out[2] = first::<f32, 3>([1, 2, 3]);
        let p: Pair = Pair { a: 1, b: 2 };
        let q = Pair { a: 1, b: 2.0 };
        let r = Pair { a: 1_u32 };
        out[3] = q.c;
        out[4] = larger(true, false) as u32;
    }

    #[kernel]
    fn endless(out: &mut [u32]) {
        out[0] = forever(1);
    }

    #[kernel]
    fn of_any_type<T>(out: &mut [T]) {
        out[0] = out[1];
    }
}

#[windlass::kernels]
mod methods {
    use windlass::prelude::*;

    #[derive(Clone, Copy)]
    struct Money {
        cents: u32,
    }

    impl Money {
        fn new(cents: u32) -> Self {
            Money { cents }
        }

        fn spend(&mut self, by: u32) {
            self.cents -= by;
        }
    }

    impl Add for Money {
        type Output = Money;
        fn add(self, other: Money) -> Money {
            Money::new(self.cents + other.cents)
        }
    }

    impl Display for Money {
        fn fmt(self) -> u32 {
            self.cents
        }
    }

    #[kernel]
    fn uses(out: &mut [u32]) {
        let m = Money::new(1);
        m.spend(2);
        m.earn(2);
        let n = m.new(3);
        let lots = Money::lots();
        let product = m * m;
        let sum = m + 1.0;
        out[0] = (m + m).cents;
        out[1] = Money::new(2).spend(1);
        out[2] = Money::new(2);
    }
}

#[windlass::kernels]
mod hidden {
    fn secret(x: u32) -> u32 {
        x
    }

    pub fn known(x: u32) -> u32 {
        secret(x)
    }
}

#[windlass::kernels]
mod visitor {
    #[kernels]
    use super::hidden::*;

    #[kernel]
    fn uses(out: &mut [u32]) {
        out[0] = known(1) + secret(2);
    }
}

#[windlass::kernels]
mod one_by_one {
    #[kernels]
    use super::hidden::known;

    #[kernel]
    fn uses(out: &mut [u32]) {
        out[0] = known(1);
    }
}

#[windlass::kernel]
fn sizes(n: usize, x: &[usize], out: &mut [u32]) {
    let k: usize = 3;
    out[k] = 2_usize;
}

#[windlass::kernel]
fn tuples(x: &[(u32, f32)], by_value: (u32, u32), n: u32, out: &mut [u32]) {
    let pair = (n, 1.5);
    let (a, b, c) = pair;
    out[0] = pair.2;
    out[1] = n.0;
    let mut m = 1;
    (m, out[2]) = (2.5, 1);
    (m, out[2]) = n;
    let [p, q] = [1, 2, 3];
    match n > 3 {
        true => out[3] = 1,
        1 => {}
    }
}

fn main() {}
