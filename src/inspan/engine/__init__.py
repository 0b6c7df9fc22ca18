"""The only room that joins the others: it finds drivers, plans runs, supervises them and finds them again."""
