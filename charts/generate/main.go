// Generate writes what is made from other files: Envoy's configuration and descriptors, the API as HTTP, the
// schema of the values, and their table in the README. `make chart` runs it, `make check` compares.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/groupcast/groupcast/charts/envoy"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: generate CHART-DIR SETTINGS-DIR CONTRACTS")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run(dir, settings, built string) error {
	contracts, err := os.ReadFile(built)
	if err != nil {
		return err
	}
	files, err := envoy.Files(envoy.Defaults(), contracts)
	if err != nil {
		return err
	}
	// What buf has written becomes Envoy's descriptors.
	if files["groupcast.binpb"], err = envoy.Descriptors(contracts); err != nil {
		return err
	}
	for name, text := range files {
		if err := write(filepath.Join(dir, "files", name), text); err != nil {
			return err
		}
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

// write leaves a file alone that is as it is to be: tests that have read it need not run again.
func write(name string, text []byte) error {
	if kept, err := os.ReadFile(name); err == nil && bytes.Equal(kept, text) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, text, 0o644)
}
