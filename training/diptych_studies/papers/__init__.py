"""Studies of networks that the papers describe: trained small, beside what they are to be compared with."""
