package reply

import "testing"

func TestNegotiate(t *testing.T) {
	for header, want := range map[string]bool{
		"*/*": true, "*": true, "application/*": true, "application/json": true, "text/html, */*;q=0.1": true, "*/json": false, "text/*": false,
		"*/json, application/yaml": true, "application/json;stream=watch": true, "application/json;stream=": true,
		"application/json;stream=other": false, "*/*;stream=other": false, "application/json;stream=other, application/yaml": true,
	} {
		t.Run(header, func(t *testing.T) {
			if _, ok := Negotiate(header, true, nil); ok != want {
				t.Errorf("accepted: %v", ok)
			}
		})
	}
}
