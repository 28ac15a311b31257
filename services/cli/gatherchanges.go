package cli

import (
	"fmt"
	"strings"

	"github.com/groupcast/groupcast/internal/printable"
	"github.com/groupcast/groupcast/sdk/gather"
)

// clientChanges holds the last line about each client, by its name. It is for output that is kept: what stays as it is is written once.
type clientChanges map[string]string

// together stands for all clients. None is called so.
const together = "(all)"

// in returns lines about those that stand otherwise in a round than before.
func (c clientChanges) in(round gather.Snapshot) (lines []string) {
	add := func(name string, cells ...string) {
		for i, cell := range cells {
			cells[i] = orDash(printable.Text(cell))
		}
		if line := strings.Join(append([]string{printable.Text(name)}, cells...), "  "); c[name] != line {
			c[name] = line
			lines = append(lines, line)
		}
	}
	attached := 0
	for _, client := range round.Clients {
		if client.Attached {
			attached++
		}
		add(client.Name, unlessPaused(client, rateOf(client.Rate)), rateOf(uint64(client.Share.Target)), clientState(client))
	}
	add(together, rateOf(round.Received), rateOf(round.Available), fmt.Sprintf("%d attached", attached))
	return lines
}
