// The gathering server.
package main

import (
	"github.com/groupcast/groupcast/internal/daemon"
	"github.com/groupcast/groupcast/services/gatherer"
)

func main() { daemon.Main("gatherer", gatherer.Defaults(), gatherer.Run) }
