package kindfile

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

// parseDays takes what time.ParseDuration takes, with whole days in front: "30d", "12h", "1d12h".
// What it returns is positive.
func parseDays(text string) (time.Duration, error) {
	days, rest, found := strings.Cut(text, "d")
	if !found {
		days, rest = "0", text
	}
	n, err := strconv.ParseUint(days, 10, 16) // of more, 24 h each would not fit
	var more time.Duration
	if err == nil && rest != "" {
		more, err = time.ParseDuration(rest)
	}
	// A sum that does not fit is negative, since neither part is.
	if sum := time.Duration(n)*day + more; err == nil && more >= 0 && sum > 0 {
		return sum, nil
	}
	return 0, fmt.Errorf("%q is not a time such as 30d, 12h or 1d12h", text)
}
