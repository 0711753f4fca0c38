package expression

// maxOpen bounds how deep lists, maps and calls may lie in each other in an expression: finding their types costs the cube of it,
// and 500 bytes with 245 lists take 1.6 s and a gigabyte.
//
// Unlike Kubernetes, whose bound is 250, expressions with more than 40 brackets open at once are refused.
const maxOpen = 40

// TooDeep says why an expression is not even compiled; "" for none.
func TooDeep(text string) string {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '"', '\'':
			for i++; i < len(text) && text[i] != c; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case '[', '{', '(':
			if depth++; depth > maxOpen {
				return "compilation failed: ERROR: <input>:-1:0: expression recursion limit exceeded: 250"
			}
		case ']', '}', ')':
			depth--
		}
	}
	return ""
}
