package strict

import "strings"

// Meant is the end of an error message about a word that is not known: the known word that is most like it, if one
// is, as "; did you mean X?".
func Meant(word string, known []string) string {
	best, least := "", max(2, len(word)/3)+1
	low := strings.ToLower(word)
	for _, k := range known {
		other := strings.ToLower(k)
		if len(low)-len(other) >= least || len(other)-len(low) >= least {
			continue // so many letters at least
		}
		if d := distance(low, other); d < least {
			best, least = k, d
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}

// distance is the number of letters that must be put in, taken out or changed to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			next := min(row[j]+1, row[j+1]+1, corner)
			if a[i] != b[j] {
				next = min(row[j]+1, row[j+1]+1, corner+1)
			}
			corner, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}
