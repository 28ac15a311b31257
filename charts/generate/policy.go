package main

import "maps"

// policy returns the schema of a gatherer's policy. It has the keys of internal/policy, whose test compares them: a policy
// with which a gatherer would not start is refused when the chart is installed.
func policy() map[string]any {
	size := map[string]any{"type": []string{"string", "integer"}, "pattern": "^[0-9][0-9.,]* ?[kKmMgGtTpPeE]?i?[bB]?$", "minimum": 0}
	share := map[string]any{
		"target":         size,
		"minimum":        size,
		"priority":       map[string]any{"type": "integer", "minimum": -1000, "maximum": 1000},
		"max":            size,
		"maxConnections": map[string]any{"type": "integer", "minimum": 0, "maximum": 16},
		"maxStored":      size,
	}
	names := map[string]any{"type": "array", "items": map[string]any{"type": "string"}}
	rule := map[string]any{
		"clients": names,
		"groups":  names,
		"labels":  map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "string"}},
	}
	maps.Copy(rule, share)
	return strict(map[string]any{
		"rules":       map[string]any{"type": "array", "items": strict(rule)},
		"default":     strict(share),
		"link":        size,
		"trustLabels": map[string]any{"type": "boolean"},
		"admission":   map[string]any{"enum": []string{"", "admit", "queue", "refuse"}},
	})
}

// strict returns the schema of an object that has no other keys.
func strict(properties map[string]any) map[string]any {
	return map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
}
