package replication

import (
	"fmt"
	"slices"
	"strings"

	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/internal/spell"
)

// everyone selects every replicator.
const everyone = "*"

// selector says which replicators get a replication: those that are named, or all if none is, provided that all its demands hold for them.
type selector struct {
	text    string
	names   []string
	demands []demand
}

// demand asks for a LAN, a node or a label.
type demand struct{ key, value string }

const (
	lanKey  = "lan"
	nodeKey = "node"
)

func parseSelector(text string) (selector, error) {
	s := selector{text: text}
	for _, term := range strings.Split(text, ",") {
		term = strings.TrimSpace(term)
		key, value, isDemand := strings.Cut(term, "=")
		switch {
		case isDemand && key != "" && value != "":
			s.demands = append(s.demands, demand{key, value})
		case isDemand || term == "":
			return s, fmt.Errorf("%.80q is neither NAME nor KEY=VALUE: want terms as in lan=rack1,role=lab, names of replicators, or * for all", term)
		case term != everyone:
			s.names = append(s.names, term)
		}
	}
	return s, nil
}

// matches reports whether a replicator is selected.
func (s selector) matches(r *replicav1.Replicator) bool {
	if len(s.names) > 0 && !slices.Contains(s.names, r.GetName()) {
		return false
	}
	return !slices.ContainsFunc(s.demands, func(d demand) bool { return !d.holds(r) })
}

func (d demand) holds(r *replicav1.Replicator) bool {
	switch d.key {
	case lanKey:
		return slices.Contains(r.GetLans(), d.value)
	case nodeKey:
		return r.GetNode() == d.value
	}
	return r.GetLabels()[d.key] == d.value
}

// unknown returns the first name that no replicator has, and one that is spelled like it, if there is one.
func (s selector) unknown(all []*replicav1.Replicator) (name, meant string) {
	var known []string
	for _, r := range all {
		known = append(known, r.GetName())
	}
	for _, name := range s.names {
		if !slices.Contains(known, name) {
			return name, spell.Alike(name, known)
		}
	}
	return "", ""
}

// lan returns the LAN over which a replicator receives from a sender: the one that was asked for, else one that both are on, else the
// replicator's first.
func (s selector) lan(sender, replica *replicav1.Replicator) string {
	for _, d := range s.demands {
		if d.key == lanKey {
			return d.value
		}
	}
	for _, name := range sender.GetLans() {
		if slices.Contains(replica.GetLans(), name) {
			return name
		}
	}
	return replica.GetLans()[0]
}

// known lists the LANs and replicators that there are, for a caller who has selected none.
func known(all []*replicav1.Replicator) string {
	var lans, names []string
	for _, r := range all {
		names = append(names, r.GetName())
		for _, lan := range r.GetLans() {
			if !slices.Contains(lans, lan) {
				lans = append(lans, lan)
			}
		}
	}
	slices.Sort(lans)
	return fmt.Sprintf("the LANs are %s, the replicators %s ('groupcast replicator list' shows their labels)", some(lans), some(names))
}

// some lists a few names, and how many more there are.
func some(names []string) string {
	const few = 10
	if len(names) == 0 {
		return "none"
	}
	if len(names) > few {
		return strings.Join(names[:few], ", ") + fmt.Sprintf(" and %d more", len(names)-few)
	}
	return strings.Join(names, ", ")
}
