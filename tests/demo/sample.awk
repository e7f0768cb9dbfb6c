# SPDX-License-Identifier: MIT
# The sample data of the demo: 60 channels, 20,000 blogs, the comments under
# them and the readers' subscriptions, the same at every call.
#
# One entity a line: table, PartitionKey, RowKey and the entity as `tableward
# export` writes it (properties by name, no zeros at the end of a time),
# separated by tabs. Nothing in it needs a JSON escape.

# The generator of Park and Miller: exact in awk's doubles, the same in every
# awk (rand() is not).
function below(n)
{
    seed = (seed * 16807) % 2147483647
    return seed % n
}

function put(table, partition_key, row_key, properties)
{
    printf "%s\t%s\t%s\t{\"PartitionKey\":\"%s\",\"RowKey\":\"%s\",%s}\n",
        table, partition_key, row_key, partition_key, row_key, properties
}

function number(name, value) { return sprintf("\"%s\":%d", name, value) }
function text(name, value) { return "\"" name "\":\"" value "\"" }
function typed(name, type, value)
{
    return "\"" name "@odata.type\":\"Edm." type "\",\"" name "\":" value
}

function moment()
{
    return sprintf("\"20%02d-%02d-%02dT%02d:%02d:%02d.%06d%dZ\"", 10 + below(15),
        1 + below(12), 1 + below(28), below(24), below(60), below(60),
        below(1000000), 1 + below(9))
}

function channel(name, blogs,    i)
{
    put("Channels", name, "", \
        typed("CreatedOn", "DateTime", "\"2009-05-01T00:00:00Z\"") "," \
        typed("Members", "Int64", "\"" below(90000) "\"") "," \
        text("Title", "All about " name))
    for (i = 1; i <= blogs; i++)
        blog(name, i)
    for (i = below(40); i > 0; i--)
        put("Subscriptions", sprintf("reader%04d", below(8000)),
            sprintf("%06d", ++subscriptions), text("Channel", name))
}

function blog(name, i,    row_key, comments, c)
{
    row_key = sprintf("25%017d", i)
    comments = below(5)
    put("Blogs", name, row_key, number("Comments", comments) "," \
        typed("CreatedOn", "DateTime", moment()) "," \
        "\"Draft\":" (below(20) == 0 ? "true" : "false") "," \
        typed("Rating", "Double", below(50) / 10 + 0.05) "," \
        text("Title", "Number " i))
    for (c = 1; c <= comments; c++)
        put("Comments", name, sprintf("%s_%02d", row_key, c),
            text("Blog", row_key) "," \
            text("By", sprintf("reader%04d", below(8000))))
}

BEGIN {
    seed = 20091101
    # Names that begin alike, that look like base64, and that a URL, a filter
    # or a shell could trip over.
    channel("Foot", 700)
    channel("Football", 3000)
    channel("Football 2", 900)
    channel("SURF", 400)
    channel("O'Neill & Sons", 500)
    channel("100% C++", 300)
    channel("Crème brûlée", 200)
    channel("Tokyo 東京", 350)
    channel("Trains 🚂", 99)
    channel("Empty", 0)
    split("Sailing Chess Opera Garden Radio", topics, " ")
    split("Oslo Lagos Lima Perth Osaka Porto Izmir Quito Turin Delhi",
        places, " ")
    for (t = 1; t <= 5; t++)
        for (p = 1; p <= 10; p++)
            # 49 channels with 271 blogs and one with 272, which makes 20,000 in
            # all.
            channel(topics[t] " " places[p], t + p < 15 ? 271 : 272)
}
