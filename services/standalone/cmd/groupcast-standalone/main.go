// All of Groupcast in one process, for one machine.
package main

import (
	"github.com/groupcast/groupcast/internal/daemon"
	"github.com/groupcast/groupcast/services/standalone"
)

func main() { daemon.Main("standalone", standalone.Defaults(), standalone.Run) }
