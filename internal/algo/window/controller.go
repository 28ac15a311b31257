package window

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/groupcast/groupcast/internal/algo/parallel"
)

// Interval is how long there should be between two steps (003 §III-A: "every fixed time
// (0.5s)").
const Interval = 500 * time.Millisecond

// Controller decides for one gathering server. It belongs to one goroutine.
type Controller interface {
	// Step takes what was seen and returns what to set. now never goes back.
	Step(now time.Time, facts Facts) Decision
	// First is the window of connections that are accepted before the next step: the clamp of
	// the listening socket. Zero leaves it alone.
	First() int
}

// The names of the controllers.
const (
	Groupcast   = "groupcast"   // ours: the default
	Gathering   = "gathering"   // 003 to the letter: buffers and connections
	Buffers     = "buffers"     // 003 §III-A alone
	Proposed    = "proposed"    // 001 to the letter
	Spring      = "spring"      // 001's reference 1
	Mehra       = "mehra"       // 001's reference 2
	Matsuo      = "matsuo"      // 003's compared method, its reference 8
	Traditional = "traditional" // TCP as it is
)

// Options are what the papers' methods need to be told. Each has a default.
type Options struct {
	// Buffer is the receive buffer that 003's methods divide, in bytes. Zero is 100 KB (003
	// Table I).
	Buffer int
	// Interval is how often the thesis's method checks round trips. Zero is 5 s (001 §4.1.1).
	Interval time.Duration
	// Link is what spring takes the access link to carry if Facts.Link.Rate does not say. Zero is
	// 4 Mbit/s (001 Table 1).
	Link Rate
}

// usualBuffer is "Receive socket buffer size on the server" (003 Table I).
const usualBuffer = 100e3

func (o Options) buffer() int { return cmp.Or(o.Buffer, usualBuffer) }

// Default is the controller if none is chosen.
const Default = Groupcast

var controllers = map[string]func(Options) Controller{
	Groupcast:   newGroupcast,
	Gathering:   func(o Options) Controller { return newGathering(o, map[string]*parallel.Search{}) },
	Buffers:     func(o Options) Controller { return newGathering(o, nil) },
	Proposed:    newProposed,
	Spring:      func(o Options) Controller { return spring{link: cmp.Or(o.Link, springLink)} },
	Mehra:       func(Options) Controller { return &mehra{} },
	Matsuo:      newMatsuo,
	Traditional: func(Options) Controller { return traditional{} },
}

// Names are all the names there are, in order.
func Names() []string {
	names := make([]string, 0, len(controllers))
	for name := range controllers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// New returns the controller of a name.
func New(name string, options Options) (Controller, error) {
	make, is := controllers[name]
	if !is {
		return nil, fmt.Errorf("controller %q is not known: choose one of %s", name, strings.Join(Names(), ", "))
	}
	return make(options), nil
}
