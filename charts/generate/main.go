// Generate writes what is made from other files: Envoy's configuration and descriptors, the API as HTTP, the
// schema of the values, and their table in the README. `make chart` runs it, `make check` compares.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/groupcast/groupcast/charts/envoy"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: generate CHART-DIR SETTINGS-DIR")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run(dir, settings string) error {
	files, err := envoy.Files(envoy.Defaults())
	if err != nil {
		return err
	}
	for name, text := range files {
		if err := write(filepath.Join(dir, "files", name), text); err != nil {
			return err
		}
	}
	if err := writeDescriptors(filepath.Join(dir, "files", "groupcast.binpb")); err != nil {
		return err
	}
	document, err := os.ReadFile(filepath.Join(dir, "..", "..", "docs", "openapi.yaml"))
	if err != nil {
		return err
	}
	if err := write(filepath.Join(dir, "files", "openapi.yaml"), document); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(dir, "values.yaml"))
	if err != nil {
		return err
	}
	root, err := parse(text)
	if err != nil {
		return err
	}
	known, err := definitions(settings)
	if err != nil {
		return err
	}
	schema, err := schemaOf(root, known)
	if err != nil {
		return err
	}
	if err := write(filepath.Join(dir, "values.schema.json"), schema); err != nil {
		return err
	}
	needed, err := json.MarshalIndent(root.needed(nil), "", "  ")
	if err != nil {
		return err
	}
	if err := write(filepath.Join(dir, "files", "needed.json"), append(needed, '\n')); err != nil {
		return err
	}
	return writeTable(filepath.Join(dir, "README.md"), root)
}

// writeDescriptors turns what buf has written to a file into Envoy's descriptors; repeating that changes nothing.
func writeDescriptors(name string) error {
	contracts, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	text, err := envoy.Descriptors(contracts)
	if err != nil {
		return err
	}
	return write(name, text)
}

func write(name string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, text, 0o644)
}
