package window

import (
	"fmt"
	"strings"
)

// String draws a decision, one line for each client, with its rate in Mbit/s.
//
//	budget 96.0 KB, available 9.65 Mbit/s
//	terminal 0  1.99 Mbit/s  ×1  4344 persistent  surplus  held back by none
func (d Decision) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "budget %.1f KB, available %s\n", float64(d.Budget)/1e3, d.Available)
	width := 0
	for _, share := range d.Shares {
		width = max(width, len([]rune(share.Name)))
	}
	for _, share := range d.Shares {
		fmt.Fprintf(&text, "%-*s  %12s  ×%d  %s  %s, held back by %s\n", width, share.Name, share.Rate, share.Connections, draw(share.Windows), share.Reason, share.Bottleneck)
	}
	return text.String()
}

// String is in Mbit/s.
func (r Rate) String() string { return fmt.Sprintf("%.2f Mbit/s", float64(r)*8/1e6) }

func draw(windows []Window) string {
	if len(windows) == 0 {
		return "no connection"
	}
	parts := make([]string, len(windows))
	for i, w := range windows {
		parts[i] = fmt.Sprint(w.Bytes)
		if w.State == Initial {
			parts[i] += " initial"
		}
	}
	return strings.Join(parts, " + ")
}
