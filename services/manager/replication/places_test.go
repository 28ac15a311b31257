package replication

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

func TestPlacesAreParsed(t *testing.T) {
	for _, tt := range []struct {
		groups, ports string
		want          string // empty is refused
	}{
		{"239.195.0.0/16", "7431", "239.195.0.0/16 7431-7431"},
		{"239.195.1.7/24", "7431-7440", "239.195.1.0/24 7431-7440"},
		{"239.1.2.3/32", "1-65535", "239.1.2.3/32 1-65535"},
		{"10.0.0.0/8", "7431", ""},
		{"224.0.0.0/3", "7431", ""},
		{"ff02::/16", "7431", ""},
		{"239.195.0.0", "7431", ""},
		{"", "7431", ""},
		{"239.195.0.0/16", "", ""},
		{"239.195.0.0/16", "0", ""},
		{"239.195.0.0/16", "70000", ""},
		{"239.195.0.0/16", "7440-7431", ""},
		{"239.195.0.0/16", "7431-", ""},
		{"239.195.0.0/16", "7431-many", ""},
		{"239.195.0.0/16", "7431 7440", ""},
		{"239.195.0.0/16", "many", ""},
	} {
		got, err := ParsePlaces(tt.groups, tt.ports)
		text := fmt.Sprintf("%v %d-%d", got.Groups, got.FirstPort, got.Last)
		if (err == nil) != (tt.want != "") || err == nil && text != tt.want {
			t.Errorf("%q, %q: %s (%v), want %q", tt.groups, tt.ports, text, err, tt.want)
		}
	}
}

// Two sessions on one group do not hear each other (C58): no two legs that run have the same place.
func TestPlacesDoNotCollide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bits := rapid.IntRange(29, 32).Draw(t, "bits")
		ports := rapid.IntRange(1, 4).Draw(t, "ports")
		p, err := ParsePlaces(fmt.Sprintf("239.195.7.8/%d", bits), fmt.Sprintf("7431-%d", 7430+ports))
		if err != nil {
			t.Fatal(err)
		}
		all := ports << (32 - bits)
		taken := make(map[string]bool)
		for range all/2 + 1 { // so few are left at most that 100 draws find one
			at, err := p.draw(taken)
			if err != nil {
				t.Fatal(err)
			}
			place := netip.MustParseAddrPort(at)
			if !p.Groups.Contains(place.Addr()) || place.Port() < p.FirstPort || place.Port() > p.Last {
				t.Fatalf("%s is not of %v, ports %d to %d", at, p.Groups, p.FirstPort, p.Last)
			}
		}
		if len(taken) != all/2+1 {
			t.Fatalf("%d draws gave %d places", all/2+1, len(taken))
		}
	})
}

func TestNoPlaceIsLeft(t *testing.T) {
	p, err := ParsePlaces("239.195.7.8/32", "7431")
	if err != nil {
		t.Fatal(err)
	}
	taken := map[string]bool{"239.195.7.8:7431": true}
	if at, err := p.draw(taken); !errors.Is(err, ErrTooMany) {
		t.Errorf("a place that is taken was given: %s (%v)", at, err)
	}
}
