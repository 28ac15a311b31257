package daemon

import (
	"encoding"
	"encoding/json"
	"errors"
	"reflect"

	"github.com/groupcast/groupcast/internal/bytesize"
)

var errSchema = errors.New("schema asked for")

// Schema returns the JSON schema of a service's configuration file, for editors and other tools that check one before the
// service reads it. It knows the kinds of values, not what only the service can judge.
func Schema(service string, config Config) string {
	root := section()
	root.Schema, root.Title = "https://json-schema.org/draft/2020-12/schema", "Configuration of groupcast-"+service
	for _, setting := range fields(reflect.ValueOf(config), nil) {
		root.below(setting.path[:len(setting.path)-1]).Properties[setting.path[len(setting.path)-1]] = setting.schema()
	}
	text, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic("daemon: schema cannot be written as JSON: " + err.Error())
	}
	return string(text) + "\n"
}

// schema describes a section or a setting.
type schema struct {
	Schema      string             `json:"$schema,omitempty"`
	Title       string             `json:"title,omitempty"`
	Description string             `json:"description,omitempty"`
	Type        any                `json:"type"` // one, or a list of them
	Pattern     string             `json:"pattern,omitempty"`
	Items       *schema            `json:"items,omitempty"`
	Properties  map[string]*schema `json:"properties,omitempty"`
	// Additional says which other keys a section may have: none.
	Additional *bool `json:"additionalProperties,omitempty"`
}

// Patterns of texts that are read as times, and of texts that are read as numbers of bytes.
const (
	timePattern = `^(0|[+]?(([0-9]+[.]?[0-9]*|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$`
	sizePattern = `^[0-9.,]+ *[kKmMgGtTpPeE]?[iI]?[bB]?$`
)

func section() *schema {
	return &schema{Type: "object", Properties: map[string]*schema{}, Additional: new(bool)}
}

// below returns the section at a path, and creates it if there is none.
func (s *schema) below(path []string) *schema {
	for _, name := range path {
		if s.Properties[name] == nil {
			s.Properties[name] = section()
		}
		s = s.Properties[name]
	}
	return s
}

func (f field) schema() *schema {
	s := &schema{Description: f.usage, Type: "string"}
	_, isText := f.value.Addr().Interface().(encoding.TextUnmarshaler)
	_, isSize := f.value.Interface().(bytesize.Size)
	_, isTime := f.value.Interface().(Duration)
	switch kind := f.value.Kind(); {
	case isSize:
		s.Type, s.Pattern = []string{"string", "integer"}, sizePattern
	case isTime:
		s.Pattern = timePattern
	case isText || kind == reflect.String:
	case kind == reflect.Bool:
		s.Type = "boolean"
	case kind == reflect.Slice:
		s.Type, s.Items = "array", &schema{Type: "string"}
	default:
		s.Type = "integer"
	}
	return s
}
