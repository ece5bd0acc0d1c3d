//! Minimises a function of a few numbers by the simplex method of Nelder and Mead (1965), without derivatives.

/// Number of searches, each starting from the best point of the previous one.
const SEARCHES: usize = 4;
/// Steps per search.
const STEPS: usize = 1500;
/// Side of the initial simplex.
const SIDE: f64 = 0.4;
/// Values closer than this count as equal.
const EQUAL: f64 = 1e-10;

/// A point near `from` that minimises `value`, and its value.
pub fn minimise<const N: usize>(from: [f64; N], value: impl Fn(&[f64; N]) -> f64) -> ([f64; N], f64) {
    let mut best = (from, value(&from));
    for _ in 0..SEARCHES {
        best = search(best, &value);
    }
    best
}

fn search<const N: usize>(from: ([f64; N], f64), value: &impl Fn(&[f64; N]) -> f64) -> ([f64; N], f64) {
    let at = |point: [f64; N]| (point, value(&point));
    let corner = |index: usize| {
        let mut point = from.0;
        point[index] += SIDE;
        at(point)
    };
    let mut simplex: Vec<_> = std::iter::once(from).chain((0..N).map(corner)).collect();
    for _ in 0..STEPS {
        simplex.sort_by(|a, b| a.1.total_cmp(&b.1));
        let (best, worst) = (simplex[0], simplex[N]);
        if worst.1 - best.1 < EQUAL {
            break;
        }
        let centre: [f64; N] =
            std::array::from_fn(|index| simplex[..N].iter().map(|corner| corner.0[index]).sum::<f64>() / N as f64);
        let along = |part: f64| at(between(&centre, &worst.0, part));
        let reflected = along(-1.0);
        let replacement = if reflected.1 < best.1 {
            let expanded = along(-2.0);
            Some(if expanded.1 < reflected.1 { expanded } else { reflected })
        } else if reflected.1 < simplex[N - 1].1 {
            Some(reflected)
        } else {
            Some(along(0.5)).filter(|contracted| contracted.1 < worst.1)
        };
        match replacement {
            Some(corner) => simplex[N] = corner,
            None => simplex[1..].iter_mut().for_each(|corner| *corner = at(between(&best.0, &corner.0, 0.5))),
        }
    }
    simplex.into_iter().min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or(from)
}

/// The point between `one` and `other`, at fraction `part`.
fn between<const N: usize>(one: &[f64; N], other: &[f64; N], part: f64) -> [f64; N] {
    std::array::from_fn(|index| one[index] + part * (other[index] - one[index]))
}

#[cfg(test)]
mod tests {
    use super::minimise;

    #[test]
    fn the_valley_of_rosenbrock_is_followed_to_its_end() {
        let value = |[x, y]: &[f64; 2]| (1.0 - x).powi(2) + 100.0 * (y - x * x).powi(2);
        let ([x, y], least) = minimise([-1.2, 1.0], value);
        assert!((x - 1.0).abs() < 1e-3 && (y - 1.0).abs() < 1e-3 && least < 1e-6, "{x} {y} {least}");
    }

    #[test]
    fn a_minimum_where_it_begins_is_kept() {
        let (point, least) = minimise([0.0; 3], |point| point.iter().map(|x| x.abs()).sum());
        assert_eq!((point, least), ([0.0; 3], 0.0));
    }
}
