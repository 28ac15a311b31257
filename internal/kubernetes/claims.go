package kubernetes

import (
	"encoding/base64"
	"encoding/json"
	"strings"
)

// Claims are what a ServiceAccount's token says about itself. Nobody has verified them.
type Claims struct {
	Account     string // as namespace/name; empty if the token is not a ServiceAccount's
	Pod, PodUID string // the pod that the token is bound to; empty if it names none
	Audiences   []string
}

// ClaimsOf reads a token without asking anybody. A token that cannot be read claims nothing.
func ClaimsOf(token string) Claims {
	_, rest, _ := strings.Cut(token, ".")
	payload, _, _ := strings.Cut(rest, ".")
	text, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		return Claims{}
	}
	var said struct {
		Subject    string    `json:"sub"`
		Audiences  audiences `json:"aud"`
		Kubernetes struct {
			Pod struct {
				Name string `json:"name"`
				UID  string `json:"uid"`
			} `json:"pod"`
		} `json:"kubernetes.io"`
	}
	if json.Unmarshal(text, &said) != nil {
		return Claims{}
	}
	claims := Claims{Pod: said.Kubernetes.Pod.Name, PodUID: said.Kubernetes.Pod.UID, Audiences: said.Audiences}
	if namespace, name, is := serviceAccount(said.Subject); is {
		claims.Account = namespace + "/" + name
	}
	return claims
}

// audiences are a list, or a single audience (RFC 7519, section 4.1.3).
type audiences []string

func (a *audiences) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*a = audiences{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(a))
}

// PodOf returns the name of the pod that a ServiceAccount's token says it is bound to; empty if it names none. It is
// only for the pod itself: nobody has verified the token.
func PodOf(token string) string { return ClaimsOf(token).Pod }
