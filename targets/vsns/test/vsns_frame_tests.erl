%% Frames against their bytes, by table, as PROTOCOL.md gives them.
-module(vsns_frame_tests).
-include_lib("eunit/include/eunit.hrl").

hex(Text) -> binary:decode_hex(binary:replace(Text, <<" ">>, <<>>, [global])).

%% The hexdump of PROTOCOL.md.
worked_example_test() ->
    ?assertEqual(hex(<<"00000012 00000007 01 0002 6131 0001 6B 00000002 6869">>),
                 iolist_to_binary(vsns_frame:encode_request(7, {save, <<"a1">>, <<"k">>, <<"hi">>}))),
    ?assertEqual(hex(<<"00000005 00000007 00">>), iolist_to_binary(vsns_frame:answer(7, ok))),
    ?assertEqual(hex(<<"0000000C 00000008 02 0002 6131 0001 6B">>),
                 iolist_to_binary(vsns_frame:encode_request(8, {load, <<"a1">>, <<"k">>}))),
    ?assertEqual(hex(<<"00000007 00000008 00 6869">>), iolist_to_binary(vsns_frame:answer(8, {value, <<"hi">>}))).

bad_requests_test_() ->
    [?_assertMatch({bad, Id, _}, vsns_frame:request(Frame)) ||
        {Id, Frame} <- [{0, <<>>}, {0, <<1, 2, 3>>}, {9, <<9:32>>},
                        {9, <<9:32, 0>>}, {9, <<9:32, 99>>},
                        {9, <<9:32, 8, 0>>},
                        {9, <<9:32, 1, 0:16, 0:16, 0:32>>},
                        {9, <<9:32, 2, 0:16, 0:16>>},
                        {9, <<9:32, 2, 5:16, "abc">>},
                        {9, <<9:32, 2, 0:16, 1:16, "kX">>},
                        {9, <<9:32, 4, 0:16, 0:16, 0:16>>},
                        {9, <<9:32, 1, 0:16, 1:16, "k", 16#ffffffff:32, "v">>}]].

next_test_() ->
    [?_assertEqual({more, 4}, vsns_frame:next(<<>>, 64)),
     ?_assertEqual({more, 4}, vsns_frame:next(<<0, 0, 0>>, 64)),
     ?_assertEqual({more, 9}, vsns_frame:next(<<5:32>>, 64)),
     ?_assertEqual({frame, <<>>, <<"x">>}, vsns_frame:next(<<0:32, "x">>, 64)),
     ?_assertEqual({frame, <<"ab">>, <<"c">>}, vsns_frame:next(<<2:32, "abc">>, 64)),
     ?_assertEqual({more, 8}, vsns_frame:next(<<65:32, 1, 2, 3>>, 64)),
     ?_assertEqual({too_large, 77}, vsns_frame:next(<<65:32, 77:32>>, 64))].

%% What is kept must not hold on to the buffer it came in.
copies_test() ->
    Big = binary:copy(<<"x">>, 10000),
    Frame = iolist_to_binary(vsns_frame:encode_request(1, {save, <<"space">>, <<"key">>, binary:copy(<<"v">>, 100)})),
    <<_:32, Cut:(byte_size(Frame) - 4)/binary, _/binary>> = <<Frame/binary, Big/binary>>,
    {1, {save, S, K, V}} = vsns_frame:request(Cut),
    [?assertEqual(byte_size(B), binary:referenced_byte_size(B)) || B <- [S, K, V]].
