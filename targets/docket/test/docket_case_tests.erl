%% Ids, documents, etags, and what the audit writes.
-module(docket_case_tests).
-include_lib("eunit/include/eunit.hrl").

id_test() ->
    [?assert(docket_case:is_id(Id)) || Id <- [<<"a">>, <<"A.b_c-9">>, binary:copy(<<"x">>, 200)]],
    [?assertNot(docket_case:is_id(Id)) || Id <- [<<>>, <<"a b">>, <<"a/b">>, <<"ä"/utf8>>, <<"a\n">>, binary:copy(<<"x">>, 201)]].

party_test_() ->
    [?_assertEqual(Expected, docket_case:party(Document)) || {Document, Expected} <- [
        {<<"{\"party\":\"A\"}">>, {ok, <<"A">>}},
        {<<" { \"x\" : {\"party\":\"B\"}, \"party\" : \"\\u00fc\" }\n">>, {ok, <<"ü"/utf8>>}},
        {<<"{\"party\":1}">>, {error, "the document's \"party\" is not a text"}},
        {<<"{}">>, {error, "the document has no \"party\""}},
        {<<"[]">>, {error, "the document is not a JSON object"}},
        {<<"{\"party\":\"A\"} x">>, {error, "the document is not JSON"}},
        {<<>>, {error, "the document is not JSON"}},
        {<<"{\"party\":\"", 255, "\"}">>, {error, "the document is not UTF-8"}}]].

etag_test() ->
    ?assertEqual("\"12\"", docket_case:etag(12)),
    ?assertEqual({ok, 12}, docket_case:version(" \"12\" ")),
    [?assertEqual(error, docket_case:version(Text)) || Text <- ["12", "\"\"", "\"0\"", "\"-1\"", "*", "W/\"1\"", "\"1", "\"1\"x"]].

escape_test() ->
    All = << <<C>> || C <- lists:seq(0, 127) >>,
    Text = <<All/binary, "ü€"/utf8>>,
    ?assertEqual(Text, mochijson2:decode([$", docket_case:escape(Text), $"])).
