package gatherer

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/groupcast/groupcast/internal/algo/window"
	"github.com/groupcast/groupcast/services/gatherer/controller"
)

// MemoryLimit and WindowMemory are how much memory there is.
var (
	MemoryLimit  = memoryLimit
	WindowMemory = windowMemory
)

// CounterOf is where an interface's counter is, and CountIn how much comes per second by a counter.
func CounterOf(iface string) string          { return newNeighbours(iface).file }
func CountIn(file string) func() window.Rate { return (&neighbours{file: file}).rate }

// Metrics are a gatherer's.
type Metrics struct{ *metrics }

// NewMetrics returns metrics that a registry has.
func NewMetrics(registry prometheus.Registerer) Metrics { return Metrics{newMetrics(registry)} }

// Note shows a round without clients.
func (m Metrics) Note(round controller.Round) { m.note(round, nil) }

// Establish notes how long a data connection took until it was let in.
func (m Metrics) Establish(took time.Duration) { m.establish(took) }
