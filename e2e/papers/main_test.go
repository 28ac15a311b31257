package main

import (
	"context"
	"errors"
	"testing"
)

func TestChooseByPaperAndByName(t *testing.T) {
	for _, name := range []string{"000", "000/unicast", "000/unicast/"} {
		chosen, err := choose([]string{name})
		if err != nil || len(chosen) != 1 || chosen[0].ID() != "000/unicast" {
			t.Errorf("%s chose %v, %v", name, chosen, err)
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
