//! Enters the decisions of a tuning record into the tuned table.

use super::record::{Decision, Record};
use crate::statistics::Interval;
use crate::tuned_table::{Against, Table, TunedClass, TunedGpu};
use contract::class::ShapeClass;

impl Table {
    /// Replaces the table's rows for the classes of `record` by its decisions.
    pub fn adopt(&mut self, record: &Record) {
        let device = &record.header.environment.device;
        let multiprocessors = device.multiprocessors;
        let index = self.gpus.iter().position(|gpu| gpu.name == device.name).unwrap_or_else(|| {
            let (name, architecture) = (device.name.clone(), device.architecture);
            self.gpus.push(TunedGpu { name, architecture, multiprocessors, classes: Vec::new() });
            self.gpus.len() - 1
        });
        let gpu = &mut self.gpus[index];
        for decision in record.last_decisions() {
            let tuned = TunedClass::new(decision, multiprocessors);
            gpu.classes.retain(|other| other.class != tuned.class);
            gpu.classes.push(tuned);
        }
    }
}

impl TunedClass {
    fn new(decision: &Decision, multiprocessors: u32) -> Self {
        let class = ShapeClass::new(decision.case.shape, decision.case.mask, multiprocessors);
        let against = decision.challenge.as_ref().map(|challenge| {
            let pair = &challenge.pair;
            match challenge.improved {
                true => (0, Against { variant: pair.second.clone(), ratio: pair.ratio, interval: pair.ratio_interval }),
                false => {
                    let interval =
                        Interval { low: 1.0 / pair.ratio_interval.high, high: 1.0 / pair.ratio_interval.low };
                    (1, Against { variant: pair.first.clone(), ratio: 1.0 / pair.ratio, interval })
                }
            }
        });
        let row = decision.challenge.as_ref().zip(against.as_ref());
        let measured = row.and_then(|(challenge, (index, _))| challenge.rows.get(*index)?.measurement());
        Self {
            class,
            variant: decision.winner().to_owned(),
            case: decision.case,
            median_us: measured.map(|measurement| measurement.summary_us.median),
            against: against.map(|(_, against)| against),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::tests::case;
    use super::super::record::Challenge;
    use super::super::record::tests::header;
    use super::*;
    use crate::record::Pair;
    use contract::config::Mask;
    use contract::tuned;

    const H200: u32 = 132;

    fn challenge(improved: bool) -> Challenge {
        let pair = Pair {
            case: case(4, 8, 512, Mask::Full),
            first: "small".into(),
            second: "large".into(),
            ratio: 0.5,
            ratio_interval: Interval { low: 0.4, high: 0.8 },
        };
        Challenge { candidate: "small".into(), improved, pair, rows: vec![] }
    }

    fn decision(batch: u32, challenge: Option<Challenge>) -> Decision {
        Decision { case: case(batch, 8, 512, Mask::Full), incumbent: "large".into(), challenge }
    }

    fn table(decisions: Vec<Decision>) -> Table {
        let mut table = Table::default();
        table.adopt(&Record { header: header(), trials: vec![], decisions });
        table
    }

    fn found(table: &Table, batch: u32, sequence: u32) -> Option<&str> {
        let case = case(batch, 8, sequence, Mask::Full);
        let class = ShapeClass::new(case.shape, case.mask, H200);
        let device = header().environment.device;
        tuned::find(table.rows(), &device.gpu(), &class).map(|row| row.variant)
    }

    #[test]
    fn what_was_measured_is_found_by_selection() {
        let table = table(vec![decision(4, Some(challenge(true))), decision(64, None)]);
        assert_eq!(found(&table, 4, 512), Some("small"));
        assert_eq!(found(&table, 8, 512), Some("small"), "0.5 heads are nearer to 0.25 than to 4");
        assert_eq!(found(&table, 1024, 512), Some("large"));
        assert_eq!(found(&table, 4, 1024), None, "another kind of kernel");
    }

    #[test]
    fn the_loser_of_a_final_comparison_is_not_in_the_table() {
        let stayed = table(vec![decision(4, Some(challenge(false)))]);
        let class = &stayed.gpus[0].classes[0];
        assert_eq!(class.variant, "large");
        let against = class.against.as_ref().unwrap();
        assert_eq!((against.variant.as_str(), against.ratio), ("small", 2.0));
        assert_eq!((against.interval.low, against.interval.high), (1.25, 2.5));
    }

    #[test]
    fn a_later_record_replaces_its_classes_and_leaves_the_others() {
        let mut table = table(vec![decision(4, Some(challenge(true))), decision(64, None)]);
        let later = Record { header: header(), trials: vec![], decisions: vec![decision(4, None)] };
        table.adopt(&later);
        let variants: Vec<_> = table.gpus[0].classes.iter().map(|class| class.variant.as_str()).collect();
        assert_eq!((table.gpus.len(), variants), (1, vec!["large", "large"]));
    }

    #[test]
    fn a_table_is_read_as_it_was_written_and_other_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tuned.json");
        let table = table(vec![decision(4, Some(challenge(true)))]);
        table.save(&path).unwrap();
        assert_eq!(Table::open(Some(&path)).unwrap(), table);
        std::fs::write(&path, "{}").unwrap();
        assert!(Table::open(Some(&path)).unwrap_err().to_string().contains("not a tuned table"));
        std::fs::write(&path, "{\"kind\":\"fa512-tuned\",\"version\":1}").unwrap();
        assert!(Table::open(Some(&path)).unwrap_err().to_string().contains("a damaged tuned table"));
    }
}
