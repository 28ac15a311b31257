package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// definitions returns the schemas that values refer to by {"$ref": "#/$defs/…"}: that of a policy, and those of the
// services' configuration files, which the services have written to a directory (--print-schema).
func definitions(settings string) (map[string]any, error) {
	all := map[string]any{"policy": policy()}
	for _, service := range []string{"manager", "agent", "gatherer", "replicator"} {
		text, err := os.ReadFile(filepath.Join(settings, service+".json"))
		if err != nil {
			return nil, err
		}
		var schema map[string]any
		if err := json.Unmarshal(text, &schema); err != nil {
			return nil, fmt.Errorf("the schema of %s: %w", service, err)
		}
		delete(schema, "$schema")
		delete(schema, "title")
		all[service+"Config"] = schema
	}
	for _, one := range all {
		if schema, is := one.(map[string]any); is {
			allowNull(schema)
		}
	}
	return all, nil
}
