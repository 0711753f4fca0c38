package lab

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
)

// A resource is a row of the switch's database: attributes by name. References are refs.
type resource map[string]any

// A tree is a configuration: resources by path, names unescaped.
type tree map[string]resource

// A ref names resources of a collection.
type ref struct {
	in    string
	names []string
}

func ifPath(name string) string { return "system/interfaces/" + name }

func cutInterface(path string) (string, bool) { return strings.CutPrefix(path, ifPath("")) }

func hostPart(address string) string { host, _, _ := strings.Cut(address, "/"); return host }

func number(v any) int {
	switch v := v.(type) {
	case float64:
		return int(v)
	case int:
		return v
	}
	return 0
}

func same(a, b any) bool { return reflect.DeepEqual(a, b) || fmt.Sprint(a) == fmt.Sprint(b) }

func refNames(v any) []string { r, _ := v.(ref); return r.names }

func refOne(v any) string {
	if list := refNames(v); len(list) == 1 {
		return list[0]
	}
	return ""
}

// ports of a switch as it leaves the factory.
const ports = 56

// factory is the configuration of a new switch.
func factory(self int) tree {
	t := tree{
		"system": {"hostname": fmt.Sprintf("core%02d", self+1), "platform_name": "8325", "software_version": "GL.10.13.1000",
			"system_mac": fmt.Sprintf("90:20:c2:bc:ed:%02x", self)},
		"system/vlans/1": {"id": 1.0, "name": "DEFAULT_VLAN_1", "type": "default", "admin": "up"}, "system/vrfs/default": {"name": "default"},
		"system/vrfs/mgmt": {"name": "mgmt"},
	}
	for i := 1; i <= ports; i++ {
		name := fmt.Sprintf("1/1/%d", i)
		t[ifPath(name)] = resource{"name": name, "type": "system", "admin": "down", "routing": true}
	}
	return t
}

func (t tree) clone() tree {
	c := tree{}
	for path, r := range t {
		c[path] = maps.Clone(r)
		for k, v := range r {
			if m, ok := v.(map[string]any); ok {
				c[path][k] = maps.Clone(m)
			}
		}
	}
	return c
}

// refers are the attributes that name other resources, with the collection of those.
var refers = map[string]string{"vrf": "vrfs", "vlan_tag": "vlans", "vlan_trunks": "vlans", "interfaces": "interfaces",
	"isl_port": "interfaces", "keepalive_vrf": "vrfs"}

// writable are the attributes that may be written, by the kind of resource.
var writable = map[string][]string{
	"interfaces": {"name", "type", "admin", "user_config", "description", "routing", "vrf", "ip4_address", "interfaces", "lacp", "vlan_mode",
		"vlan_tag", "vlan_trunks", "other_config", "vsx_virtual_ip4", "vsx_virtual_gw_mac_v4"},
	"vlans": {"id", "name", "type", "admin"},
	"vrfs":  {"name"},
	"vsx": {"device_role", "isl_port", "linkup_delay_timer", "system_mac", "keepalive_vrf", "keepalive_src_ip", "keepalive_peer_ip",
		"config_sync_features", "config_sync_disable"},
	"system": {"hostname"},
}

// kindOf is the kind of resource at a path.
func kindOf(path string) string {
	parts := strings.SplitN(path, "/", 3)
	if len(parts) == 1 {
		return parts[0]
	}
	return parts[1]
}

// parse reads a body: attributes that are known and writable, references in any of their forms.
func (s *Switch) parse(kind string, data []byte) (resource, error) {
	var body map[string]any
	if err := json.Unmarshal(data, &body); err != nil {
		return nil, fmt.Errorf("malformed JSON: %w", err)
	}
	r := resource{}
	for k, v := range body {
		if !slices.Contains(writable[kind], k) {
			return nil, fmt.Errorf("unknown or read-only attribute %s", k)
		}
		if coll, ok := refers[k]; ok {
			names, err := namesOf(v)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", k, err)
			}
			for _, n := range names {
				if s.tree["system/"+coll+"/"+n] == nil {
					return nil, fmt.Errorf("%s: no %s in %s", k, n, coll)
				}
			}
			v = ref{coll, names}
		}
		r[k] = v
	}
	return r, nil
}

// namesOf reads a reference: a path, a list of paths, or a map from names.
func namesOf(v any) (names []string, err error) {
	one := func(v any) {
		path, ok := v.(string)
		name, bad := url.PathUnescape(path[strings.LastIndexByte(path, '/')+1:])
		if !ok || bad != nil {
			err = fmt.Errorf("%v is no reference", v)
		}
		names = append(names, name)
	}
	switch v := v.(type) {
	case string:
		one(v)
	case []any:
		for _, e := range v {
			if _, ok := e.(string); !ok {
				return nil, fmt.Errorf("%v is no reference", e)
			}
			one(e)
		}
	case map[string]any:
		names = slices.Sorted(maps.Keys(v))
	default:
		err = fmt.Errorf("%v is no reference", v)
	}
	slices.Sort(names)
	return names, err
}

// uri is the address of a resource, as answers have it.
func uri(version, coll, name string) string {
	return "/rest/" + version + "/system/" + coll + "/" + url.PathEscape(name)
}

// render is a resource as an answer has it.
func (s *Switch) render(version string, r resource) map[string]any {
	out := map[string]any{}
	for k, v := range r {
		f, ok := v.(ref)
		if !ok {
			out[k] = v
			continue
		}
		m, list := map[string]any{}, []any{}
		for _, n := range f.names {
			m[n], list = uri(version, f.in, n), append(list, uri(version, f.in, n))
		}
		switch plural := k == "interfaces" || k == "vlan_trunks"; {
		case s.refs:
			out[k] = m
		case plural:
			out[k] = list
		case len(list) > 0:
			out[k] = list[0]
		}
	}
	return out
}
