package paper001

import "github.com/groupcast/groupcast/e2e/lab/measure"

// What the thesis plots of each scenario (001 §4.2, §5.2).

func scenario1Gathered() (scenario, views) {
	return first(), views{
		title: "Paper 001, scenario 1, with a gatherer", tables: onlySummary, goals: shortsGain,
		charts: func(all []*played) []measure.Chart {
			charts := []measure.Chart{established("8a", all), took("8b", all), utilized("8c", all), queued("8d", all)}
			return append(charts, sharedByAll("figure9", "Figure 9: long uploads", all)...)
		},
	}
}

func scenario2() (scenario, views) {
	return second(), views{
		title: "Paper 001, scenario 2: large differences in round trips and small buffers", tables: onlySummary, goals: busyThough,
		charts: func(all []*played) []measure.Chart {
			return []measure.Chart{established("10a", all), took("10b", all), utilized("10c", all), queued("10d", all)}
		},
	}
}

func scenario3() (scenario, views) {
	return third(), views{
		title: "Paper 001, scenario 3: a large number of long connections", tables: onlySummary, goals: evenAmong,
		charts: func(all []*played) []measure.Chart {
			return []measure.Chart{established("11a", all), took("11b", all), fair("11c", all), queued("11d", all)}
		},
	}
}

func scenario4() (scenario, views) {
	return fourth(), views{
		title: "Paper 001, scenario 4: UDP on the access link", tables: onlySummary, goals: freedIsUsed,
		charts: func(all []*played) []measure.Chart {
			return []measure.Chart{established("12a", all), took("12b", all), utilized("12c", all), lost("12d", all), queuedAs("queue", "The queue in scenario 4, which the thesis does not draw", all)}
		},
	}
}

func scenario5() (scenario, views) {
	return fifth(), views{
		title: "Paper 001, scenario 5: a bottleneck in the backbone", goals: followBest, tables: withPhases,
		charts: func(all []*played) []measure.Chart {
			return sharedByAll("figure14b", "Figure 14(b): throughput of each connection", all)
		},
	}
}

func scenario6() (scenario, views) {
	return sixth(), views{
		title: "Paper 001, scenario 6: a bottleneck that changes its place", goals: followBest, tables: withPhases,
		charts: func(all []*played) []measure.Chart {
			return sharedByAll("figure15b", "Figure 15(b): throughput of each group", all)
		},
	}
}

func onlySummary(all []*played) []measure.Table { return []measure.Table{summarized(all)} }

func withPhases(all []*played) []measure.Table { return append(phases(all), summarized(all)) }
