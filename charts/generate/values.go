package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// value is a key of values.yaml. A key with a description is a setting; one without is a section.
type value struct {
	name        string
	description string         // what follows "# --"
	limits      map[string]any // what follows "# @schema"
	node        *yaml.Node
	below       []value
}

func parse(text []byte) (value, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return value{}, fmt.Errorf("values.yaml: %w", err)
	}
	return read("", document.Content[0], "")
}

// read reads a key with its comment.
func read(name string, node *yaml.Node, comment string) (value, error) {
	v := value{name: name, node: node}
	var words []string
	for line := range strings.Lines(comment) {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "#"))
		if limits, is := strings.CutPrefix(line, "@schema "); is {
			if err := json.Unmarshal([]byte(limits), &v.limits); err != nil {
				return v, fmt.Errorf("values.yaml: %s: @schema: %w", name, err)
			}
		} else if text, is := strings.CutPrefix(line, "-- "); is {
			words = []string{text}
		} else if words != nil {
			words = append(words, line)
		}
	}
	v.description = strings.Join(words, " ")
	if v.description != "" || node.Kind != yaml.MappingNode {
		if v.description == "" {
			return v, fmt.Errorf("values.yaml: %s has no description: want a comment with # --", name)
		}
		return v, nil
	}
	for i := 0; i < len(node.Content); i += 2 {
		below, err := read(node.Content[i].Value, node.Content[i+1], node.Content[i].HeadComment)
		if err != nil {
			return v, err
		}
		v.below = append(v.below, below)
	}
	return v, nil
}

// retired are keys without a meaning now, by section: an upgrade with --reuse-values brings them along from an earlier chart, which had
// defaults for them.
var retired = map[string][]string{"agent": {"stopWait"}, "replicator": {"stopWait"}}

// schemaOf returns the schema. It is strict for keys to which the chart itself gives a meaning, and
// open for those to which Kubernetes does.
func schemaOf(root value, definitions map[string]any) ([]byte, error) {
	schema := root.schema()
	schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	schema["title"] = "Values of the groupcast chart"
	schema["$defs"] = definitions
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(schema)
	return out.Bytes(), err
}

func (v value) schema() map[string]any {
	if len(v.below) > 0 {
		properties := make(map[string]any)
		for _, below := range v.below {
			properties[below.name] = below.schema()
		}
		for _, name := range retired[v.name] {
			properties[name] = map[string]any{"deprecated": true, "description": "Means nothing any more."}
		}
		switch v.name {
		case "": // the usual condition of a chart that is part of another
			properties["enabled"] = map[string]any{"type": "boolean", "description": "For a chart that this one is a part of: whether it is."}
		case "global": // all charts of a release, and the tools that install them, write here
			return map[string]any{"type": "object", "properties": properties}
		}
		section := strict(properties)
		if len(v.needed([]string{v.name})) == 0 {
			allowNull(section)
		}
		return section
	}
	schema := map[string]any{"type": v.kind(), "description": v.description}
	maps.Copy(schema, v.limits)
	if v.mayBeNull() {
		allowNull(schema)
	}
	return schema
}

// mayBeNull reports whether a setting may be taken out of the values by --set KEY=null: a list or a map has nothing in it then, and what is empty by default is
// empty. Other settings may only where they say so.
func (v value) mayBeNull() bool {
	if v.node.Kind != yaml.ScalarNode || v.saysNull() {
		return true
	}
	return slices.Contains([]string{"", "0", "false"}, v.node.Value)
}

// saysNull reports whether values.yaml says itself that a setting may be null, for the chart goes without it.
func (v value) saysNull() bool {
	kinds, _ := v.limits["type"].([]any)
	return slices.Contains(kinds, any("null"))
}

// allowNull has a schema let null through.
func allowNull(schema map[string]any) {
	switch kinds := schema["type"].(type) {
	case string:
		schema["type"] = []any{kinds, "null"}
	case []any:
		if !slices.Contains(kinds, any("null")) {
			schema["type"] = append(slices.Clone(kinds), "null")
		}
	}
	if allowed, is := schema["enum"].([]any); is && !slices.Contains(allowed, nil) {
		schema["enum"] = append(slices.Clone(allowed), nil)
	}
}

// needed returns the paths of all that templates do not go without: settings that may not be null, and sections in which there is no such
// setting, but for those with one that says that it may.
func (v value) needed(path []string) (paths []string) {
	mayGo := false
	for _, below := range v.below {
		at := append(slices.Clone(path), below.name)
		if len(below.below) > 0 {
			paths = append(paths, below.needed(at)...)
		} else if !below.mayBeNull() {
			paths = append(paths, strings.Join(at, "."))
		}
		mayGo = mayGo || below.saysNull()
	}
	if len(paths) == 0 && !mayGo && len(path) > 0 {
		paths = []string{strings.Join(path, ".")}
	}
	return paths
}

func (v value) kind() string {
	switch v.node.Kind {
	case yaml.MappingNode:
		return "object"
	case yaml.SequenceNode:
		return "array"
	}
	switch v.node.Tag {
	case "!!bool":
		return "boolean"
	case "!!int":
		return "integer"
	}
	return "string"
}

// The table stands between these lines of the README.
const (
	tableBegins = "<!-- values: begin -->\n"
	tableEnds   = "<!-- values: end -->"
)

func writeTable(name string, root value) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), tableBegins)
	_, after, ok2 := strings.Cut(rest, tableEnds)
	if !ok || !ok2 {
		return fmt.Errorf("%s has no %q", name, tableBegins)
	}
	var table strings.Builder
	table.WriteString("| value | default | |\n|---|---|---|\n")
	if err := root.rows(&table, nil); err != nil {
		return err
	}
	return write(name, []byte(before+tableBegins+table.String()+tableEnds+after))
}

func (v value) rows(table *strings.Builder, path []string) error {
	for _, below := range v.below {
		at := append(slices.Clone(path), below.name)
		if len(below.below) > 0 {
			if err := below.rows(table, at); err != nil {
				return err
			}
			continue
		}
		var plain any
		if err := below.node.Decode(&plain); err != nil {
			return err
		}
		standard, err := json.Marshal(plain)
		if err != nil {
			return err
		}
		fmt.Fprintf(table, "| `%s` | `%s` | %s |\n", strings.Join(at, "."), standard, strings.ReplaceAll(below.description, "|", `\|`))
	}
	return nil
}
