// Written in the kernel language, and read by the attribute, not by the compiler: see `library.rs`.

fn saturating_add<T>(a: T, b: T) -> T {
    let sum = a + b;
    // It wraps, and then lies on the wrong side of `a`.
    if b >= 0 {
        if sum < a { T::MAX } else { sum }
    } else if sum > a {
        T::MIN
    } else {
        sum
    }
}

fn saturating_sub<T>(a: T, b: T) -> T {
    let difference = a - b;
    if b >= 0 {
        if difference > a { T::MIN } else { difference }
    } else if difference < a {
        T::MAX
    } else {
        difference
    }
}

fn saturating_mul<T>(a: T, b: T) -> T {
    // By halves of the bits. A comparison of `a * b / b` with `a` is shorter, and compilers turn it into an operation of their
    // own that NVIDIA's for Vulkan gives up on where the kernel divides integers of 64 bits as well.
    let half = T::BITS / 2;
    let low: T = (1 << half) - 1;
    let x = if a < 0 { 0 - a } else { a };
    let y = if b < 0 { 0 - b } else { b };
    let (x_high, y_high) = ((x >> half) & low, (y >> half) & low);
    let (x_low, y_low) = (x & low, y & low);
    // One of both is zero, or the product has too many bits anyway. Neither exceeds the least number's magnitude, so that the
    // other leaves the sign alone.
    let between = x_high * y_low + x_low * y_high;
    let high = between + (((x_low * y_low) >> half) & low);
    let is_signed = T::MIN < 0;
    let most = if is_signed { low >> 1 } else { low };
    if (x_high == 0 || y_high == 0) && between <= low && high <= most {
        a * b
    } else if (a < 0) != (b < 0) {
        // Also where the product is just the least number.
        T::MIN
    } else {
        T::MAX
    }
}

fn pow<T>(base: T, exponent: u32) -> T {
    let mut result: T = 1;
    let mut square = base;
    let mut left = exponent;
    while left > 0 {
        if (left & 1) == 1 {
            result = result * square;
        }
        square = square * square;
        left = left >> 1;
    }
    result
}

fn powi<T>(base: T, exponent: i32) -> T {
    let mut result: T = 1.0;
    let mut square = base;
    let mut left = exponent.abs() as u32;
    while left > 0 {
        if (left & 1) == 1 {
            result = result * square;
        }
        square = square * square;
        left = left >> 1;
    }
    if exponent < 0 { 1.0 / result } else { result }
}

fn hypot<T>(x: T, y: T) -> T {
    let a = x.abs();
    let b = y.abs();
    let most = a.max(b);
    if most == 0.0 {
        return 0.0;
    }
    // Squares of large numbers are beyond the largest one.
    let part = a.min(b) / most;
    most * (1.0 + part * part).sqrt()
}

fn rem_euclid<T>(a: T, b: T) -> T {
    let rest = a % b;
    if rest >= 0 {
        rest
    } else if b < 0 {
        rest - b
    } else {
        rest + b
    }
}

fn rem_euclid_of_floats<T>(a: T, b: T) -> T {
    let rest = a % b;
    if rest < 0.0 { rest + b.abs() } else { rest }
}

fn div_euclid<T>(a: T, b: T) -> T {
    let quotient = a / b;
    if a % b >= 0 {
        quotient
    } else if b > 0 {
        quotient - 1
    } else {
        quotient + 1
    }
}

fn div_ceil<T>(a: T, b: T) -> T {
    let quotient = a / b;
    if a % b > 0 { quotient + 1 } else { quotient }
}

fn is_multiple_of<T>(a: T, b: T) -> bool {
    // By zero the remainder is 0, and nothing but 0 is a multiple of it.
    if b == 0 { a == 0 } else { a % b == 0 }
}

fn is_power_of_two<T>(a: T) -> bool {
    a != 0 && (a & (a - 1)) == 0
}

fn next_power_of_two<T>(a: T) -> T {
    let mut power: T = 1;
    // Twice the largest one is 0, which is what there is then.
    while power < a && power > 0 {
        power = power + power;
    }
    power
}

fn ilog2<T>(a: T) -> u32 {
    31 - a.leading_zeros()
}

fn isqrt<T>(a: T) -> T {
    let mut root: T = 0;
    let mut bit: T = 1 << (T::BITS / 2 - 1);
    while bit > 0 {
        let more = root | bit;
        // The square is not beyond the largest number, as the root has half of the bits.
        if more * more <= a {
            root = more;
        }
        bit = bit >> 1;
    }
    root
}

fn is_finite<T>(x: T) -> bool {
    x.abs() <= T::MAX
}

fn is_infinite<T>(x: T) -> bool {
    x.abs() > T::MAX
}
