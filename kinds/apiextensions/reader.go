//go:build reader

package apiextensions

import "github.com/kloop-dev/kloop/resource"

func checked(d *resource.Def[crd]) *resource.Def[crd] { return d }
