package main

import (
	"context"
	"errors"
	"slices"
	"testing"
)

func TestChooseByPaperAndByName(t *testing.T) {
	for _, name := range []string{"001/scenario1", "001/scenario1/"} {
		chosen, err := choose([]string{name})
		if err != nil || len(chosen) != 1 || chosen[0].ID() != "001/scenario1" {
			t.Errorf("%s chose %v, %v", name, chosen, err)
		}
	}
	for paper, number := range map[string]int{"000": 2, "001": 7} {
		if chosen, err := choose([]string{paper}); err != nil || len(chosen) != number {
			t.Errorf("%s chose %v, %v", paper, chosen, err)
		}
	}
	if _, err := choose([]string{"000", "999"}); err == nil {
		t.Error("an unknown paper was chosen")
	}
	if err := run(context.Background(), []string{"run"}); !errors.Is(err, errUsage) {
		t.Errorf("run without a paper: %v", err)
	}
}

func TestExperimentsHaveNamesOfTheirOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range experiments {
		if seen[e.ID()] || e.About == "" || e.Run == nil {
			t.Errorf("experiment %q: twice, or incomplete", e.ID())
		}
		seen[e.ID()] = true
	}
}

func TestLoadsAreSharesOfTime(t *testing.T) {
	var s settings
	if err := s.setLoads("0.2,1"); err != nil || !slices.Equal(s.Loads, []float64{0.2, 1}) {
		t.Errorf("loads %v, %v", s.Loads, err)
	}
	for _, text := range []string{"", "0", "1.1", "a"} {
		if err := s.setLoads(text); err == nil {
			t.Errorf("%q is a load", text)
		}
	}
}

func TestMembersAreAsManyAsThePaperHas(t *testing.T) {
	var s settings
	if err := s.setMembers("1,5"); err != nil || !slices.Equal(s.Members, []int{1, 5}) {
		t.Errorf("members %v, %v", s.Members, err)
	}
	for _, text := range []string{"", "0", "6", "a"} {
		if err := s.setMembers(text); err == nil {
			t.Errorf("%q is a number of members", text)
		}
	}
}
