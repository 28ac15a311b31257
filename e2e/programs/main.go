// Command programs builds what tests run as programs into a directory, and prints the one that GROUPCAST_PROGRAMS is to name.
package main

import (
	"fmt"
	"os"

	"github.com/groupcast/groupcast/internal/testprocess"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: programs DIRECTORY")
		os.Exit(2)
	}
	dir, err := testprocess.Prepare(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(dir)
}
