package gatherer

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/groupcast/groupcast/internal/algo/window"
)

// neighbours counts what comes over a network interface: uploads, and other transfers
// of this node.
type neighbours struct {
	file     string // empty counts nothing
	at       time.Time
	received uint64
}

func newNeighbours(iface string) *neighbours {
	if iface == "" {
		return &neighbours{}
	}
	return &neighbours{file: filepath.Join("/sys/class/net", iface, "statistics/rx_bytes")}
}

// rate returns how much came per second since the last call, of everything; the controller subtracts what its clients brought. What is
// left includes the headers of their packets, which take room on the link as others' traffic does.
func (n *neighbours) rate() window.Rate {
	if n.file == "" {
		return 0
	}
	text, err := os.ReadFile(n.file)
	if err != nil {
		return 0 // an interface that is gone carries nothing
	}
	received, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0
	}
	now := time.Now()
	elapsed, came := now.Sub(n.at).Seconds(), received-min(n.received, received)
	first := n.at.IsZero()
	n.at, n.received = now, received
	if first || elapsed <= 0 {
		return 0
	}
	return window.Rate(float64(came) / elapsed)
}
