package faults

import (
	"github.com/groupcast/groupcast/e2e/lab/fault"
)

// Kill ends a machine's program at once.
func (n *Net) Kill(name string) {
	n.Helper()
	n.must(n.Machine(name).Process.Kill())
}

// Freeze stops a machine's program as if the machine hung, until Thaw.
func (n *Net) Freeze(name string) {
	n.Helper()
	f := &fault.Freeze{Process: n.Machine(name).Process}
	n.must(f.Begin())
	n.Await(name+" is frozen", func() bool { return f.Proof() == nil })
}

// Thaw ends Freeze.
func (n *Net) Thaw(name string) {
	n.Helper()
	n.must(n.Machine(name).Process.Continue())
}

// Cut loses all that goes to a machine or comes from it, without a word, until Heal.
func (n *Net) Cut(name string) {
	n.Helper()
	n.must(n.Machine(name).Cable.Cut())
}

// Heal ends Cut.
func (n *Net) Heal(name string) {
	n.Helper()
	n.must(n.Machine(name).Cable.Heal())
}
